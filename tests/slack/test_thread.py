"""The thread: evidence in context, every rank, what changed and why, who did what."""

from __future__ import annotations

from typing import Any

import pytest

from bot.slack.changes import MAX_DEEDS, assigned, changes, timeline
from bot.slack.contract import SlackMessage
from bot.slack.thread import replies
from knowledge.diagnosis import Diagnosis, Evidence, Role
from knowledge.dossier import Dossier, Part, RankAccount, Said, SourceAccount
from knowledge.job import JobFacts
from storage.tables import Action, ActionKind
from tests.slack import samples, scenes
from tests.slack.test_escape import HOSTILE
from tests.slack.test_message import accepted, inert, shown

WAITED = "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88123, OpType=ALLREDUCE)"


def told(
    diagnosis: Diagnosis | None = None,
    dossier: Dossier | None = None,
    history: list[tuple[int, Diagnosis]] | None = None,
    actions: list[Action] | None = None,
    **more: Any,
) -> dict[str, SlackMessage]:
    """The thread of the lost GPU, by part."""
    job, lost, _ = samples.gpu_lost()
    found = replies(job, diagnosis or lost, scenes.standing(**more), dossier, history or [], actions or [])
    return {reply.part: reply.content for reply in found if isinstance(reply.content, SlackMessage)}


def rows(message: SlackMessage) -> list[list[str]]:
    """The cells of the message's table."""
    (table,) = (block for block in message.blocks if block["type"] == "table")
    return [[cell["text"] for cell in row] for row in table["rows"]]


def test_a_quiet_failure_has_the_evidence_and_the_ranks_and_no_more() -> None:
    assert list(told(dossier=scenes.dossier())) == ["evidence", "ranks"]
    assert list(told()) == ["evidence"]


def test_evidence_stands_in_its_source_among_the_lines_around_it() -> None:
    message = told(dossier=scenes.dossier())["evidence"]
    accepted(message)
    assert shown(message).split("\n") == [
        "| Evidence, line by line (▶ proves, ▸ confirms)",
        "|",
        "| gpu-n17/kern.log · kernel log · gpu-n17",
        "|       810  pcieport 0000:17:01.0: AER: Uncorrected (Fatal) error received",
        "|         ⋮",
        "|     ▶ 812  NVRM: Xid (PCI:0000:1b:00): 79, pid=201133, name=python, GPU has fallen off the bus.",
        "| gpu-n17/rank-137.err · rank log · rank 137 · gpu-n17",
        "|       5119  step 41210 loss 1.912 lr 2.1e-05",
        "|          ⋮",
        "|     ▸ 5123  torch.AcceleratorError: CUDA error: unspecified launch failure",
        "|          ⋮",
        "|       5140  terminate called after throwing an instance of 'c10::Error'",
        "| gpu-n01/rank-0.err · rank log · rank 0 · gpu-n01",
        "|       991  [rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88123)",
    ]
    assert "gpu-n17/kern.log: 812  NVRM: Xid" in message.text


def test_much_evidence_is_bounded_and_says_so() -> None:
    _, lost, _ = samples.gpu_lost()
    many = [
        Evidence(source=f"rank-{n // 40}.err", line=n, text=f"line {n} " + "x" * 300, role=Role.ROOT)
        for n in range(800)
    ]
    message = told(lost.model_copy(update={"evidence": many}))["evidence"]
    accepted(message)
    assert "more sources" in shown(message)


def test_of_512_ranks_the_odd_ones_come_first_and_equal_ones_share_a_row() -> None:
    message = told(dossier=scenes.dossier())["ranks"]
    accepted(message)
    assert rows(message) == [
        ["Rank", "Part", "Host", "Step", "Ended", "Said"],
        [
            "137",
            "began it",
            "gpu-n17",
            "41210",
            "signal 6 (SIGABRT)",
            "torch.AcceleratorError: CUDA error: unspecified launch failure",
        ],
        ["138", "nothing arrived", "gpu-n18", "–", "–", "–"],
        ["0–136, 139–511", "followed", "64 hosts", "41210", "exit code 134", WAITED],
    ]
    assert "137 began it: torch.AcceleratorError" in message.text
    assert "0–136, 139–511 followed" in message.text


def account(rank: int, text: str = "", part: Part = Part.COLLATERAL, ended: str = "") -> RankAccount:
    """A rank that said `text`."""
    said = Said(source=f"rank-{rank}.err", line=1, text=text) if text else None
    return RankAccount(rank=rank, part=part, telling=said, ended=ended)


@pytest.mark.parametrize("count", [2, 8, 16])
def test_few_ranks_have_a_row_each_where_that_fits(count: int) -> None:
    message = told(dossier=Dossier(ranks=[account(rank, "peer lost") for rank in range(count)]))["ranks"]
    accepted(message)
    assert len(rows(message)) == count + 1


@pytest.mark.parametrize(
    "words",
    [
        lambda rank: f"error {rank}",
        lambda rank: "x" * 400,
        lambda rank: "".join(map(chr, range(97, 97 + rank % 26))) + "!",
    ],
    ids=["alike", "long", "different"],
)
def test_any_number_of_ranks_fits_a_message(words: Any) -> None:
    for count in (100, 101, 4_096):
        message = told(dossier=Dossier(ranks=[account(rank, words(rank)) for rank in range(count)]))["ranks"]
        accepted(message)
        assert f"{count:,} rank".replace(",", " ") in shown(message)


def test_ranks_that_differ_only_in_numbers_are_alike() -> None:
    ranks = [
        account(rank, f"[rank{rank}] 03:12:{rank % 60:02d} timed out" if rank % 2 else "ok") for rank in range(400)
    ]
    message = told(dossier=Dossier(ranks=ranks))["ranks"]
    accepted(message)
    assert len(rows(message)) == 3


def test_what_the_dossier_left_out_is_said() -> None:
    dossier = Dossier(world_size=8192, ranks=[account(0), account(1, "boom", Part.INITIATING)], omitted="4096 ranks")
    assert "2 ranks of 8192 are known · 4096 ranks" in shown(told(dossier=dossier)["ranks"])


def test_columns_of_which_nothing_is_known_are_not_shown() -> None:
    ranks = [account(0, "a", Part.INITIATING), account(1, "b")]
    assert rows(told(dossier=Dossier(ranks=ranks))["ranks"])[0] == ["Rank", "Part", "Said"]


def test_the_longer_table_of_a_storm_is_in_its_thread() -> None:
    job, diagnosis, status = scenes.storm(500)
    parts = {reply.part: reply.content for reply in replies(job, diagnosis, status, None, [], [])}
    members = parts["members"]
    assert isinstance(members, SlackMessage)
    accepted(members)
    shown_rows = rows(members)
    assert 30 < len(shown_rows) <= 100
    assert shown_rows[-1][0] == f"… and {500 - (len(shown_rows) - 2)} more"
    assert "members" not in told(members=scenes.storm_members(20), member_count=20)


def test_a_changed_verdict_says_what_changed_and_which_line_did_it() -> None:
    _, early, _ = samples.cannot_tell()
    _, late, _ = samples.gpu_lost()
    message = told(history=[(1, early), (2, late), (3, late)])
    assert [part for part in message if part.startswith("why")] == ["why-2"]
    accepted(message["why-2"])
    assert shown(message["why-2"]).split("\n") == [
        "| The verdict changed",
        "|   - Cause: Collective timed out, cause unknown → GPU fell off the bus",
        "|   - Began on: nobody named → gpu-n17 (rank 137)",
        "|   - Confidence: 31 % → 97 %",
        "| Because this arrived since:",
        "| gpu-n17/kern.log:812 · rank 137 · 09:01:58 UTC",
        "|     NVRM: Xid (PCI:0000:1b:00): 79, pid=201133, name=python, GPU has fallen off the bus.",
        "| gpu-n17/rank-137.err:5123 · rank 137",
        "|     torch.AcceleratorError: CUDA error: unspecified launch failure",
    ]


def test_a_verdict_from_the_same_lines_says_so() -> None:
    _, late, _ = samples.gpu_lost()
    surer = late.model_copy(update={"confidence": 0.4})
    ((version, message),) = changes([(1, surer), (4, late)])
    assert version == 4
    assert "Confidence: 40 % → 97 %" in shown(message)
    assert "the same evidence was weighed again" in shown(message)


def test_a_little_more_confidence_is_not_worth_a_post() -> None:
    _, late, _ = samples.gpu_lost()
    assert list(changes([(1, late), (2, late.model_copy(update={"confidence": 0.9})), (3, late)])) == []


def did(number: int, kind: ActionKind, **detail: Any) -> Action:
    """Something that Alice did."""
    return Action(
        id=number,
        key=str(number),
        episode_id="e",
        kind=kind,
        user="U0ALICE",
        user_name="alice",
        detail=detail,
        at=scenes.NIGHT,
    )


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (did(1, ActionKind.ACKNOWLEDGE), "alice acknowledged it"),
        (did(1, ActionKind.ASSIGN, assignee="U0BOB"), "alice gave it to @U0BOB"),
        (did(1, ActionKind.ASSIGN, assignee="U0ALICE"), "alice took it"),
        (did(1, ActionKind.RESOLVE, resolution="fixed", note="a <!here>"), "alice resolved it: fixed “a <!here>”"),
        (did(1, ActionKind.REOPEN), "alice opened it again"),
        (
            did(1, ActionKind.MUTE, until="2026-12-01T10:00:00+00:00"),
            "alice muted it in this channel until 1 Dec 10:00 UTC",
        ),
        (did(1, ActionKind.UNMUTE), "alice ended the mute"),
        (did(1, ActionKind.REDIAGNOSE), "alice asked to diagnose it again"),
        (did(1, ActionKind.RIGHT), "alice judged the verdict right"),
        (
            did(1, ActionKind.WRONG, cause="nic-fault", ranks=[3, 8, 9], note="saw it"),
            "alice judged the verdict wrong: cause “Network adapter fault”, begun by ranks 3, 8, 9 “saw it”",
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Action) else "",
)
def test_the_timeline_tells_each_deed_in_words(action: Action, words: str) -> None:
    message = timeline([action])
    assert message is not None
    accepted(message)
    assert shown(message).split("\n")[-1] == f"| 30 Nov 09:12 UTC  {words}"
    assert f"alice {words.split()[1]}" in message.text


def test_nobody_did_anything_and_nothing_is_posted() -> None:
    assert timeline([]) is None


def test_a_busy_night_keeps_the_newest_deeds() -> None:
    notes = [did(number, ActionKind.RESOLVE, resolution="other", note="n" * 900) for number in range(200)]
    message = timeline(notes)
    assert message is not None
    accepted(message)
    assert f"… {200 - MAX_DEEDS} earlier" in shown(message)


def test_who_is_given_an_incident_is_told_with_a_mention() -> None:
    """The timeline is edited, which wakes nobody."""
    actions = [
        did(1, ActionKind.ACKNOWLEDGE),
        did(2, ActionKind.ASSIGN, assignee="U0BOB"),
        did(3, ActionKind.ASSIGN, assignee="U0ALICE"),
        did(4, ActionKind.ASSIGN, assignee=None),
    ]
    ((number, message),) = assigned(actions)
    assert number == 2
    assert message.text == "<@U0BOB>, alice gave you this incident."
    assert list(assigned(actions[1:2])) == []  # the timeline itself is posted with this mention


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_inert_and_fits(text: str) -> None:
    _, lost, _ = samples.gpu_lost()
    line = Evidence(source=text, line=1, host=text, text=text, role=Role.ROOT)
    cause = lost.cause.model_copy(update={"title": text})
    hostile = lost.model_copy(update={"evidence": [line] * 9, "cause": cause})
    said = Said(source=text, line=2, text=text)
    ranks = [RankAccount(rank=n, host=text, part=Part.INITIATING, telling=said, ended=text) for n in range(9)]
    dossier = Dossier(ranks=ranks, sources=[SourceAccount(name=text, kind=text, host=text)], omitted=text)
    actions = [did(1, ActionKind.RESOLVE, resolution=text, note=text), did(2, ActionKind.WRONG, cause=text, note=text)]
    for action in actions:
        action.user_name = text or "x"
    for message in told(hostile, dossier, [(1, lost), (2, hostile)], actions).values():
        accepted(message)
        inert(message)


def test_a_job_without_facts_has_a_thread() -> None:
    found = replies(JobFacts(), samples.gpu_lost()[1], scenes.standing(), scenes.dossier(2), [], [])
    assert [reply.part for reply in found] == ["evidence", "ranks"]
