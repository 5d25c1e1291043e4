"""What the message knows besides the diagnosis: who does what about it, all it stands for, and how it was before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.slack.buttons import MUTES, episode_of
from bot.slack.contract import Before, Member, SlackMessage, State
from bot.slack.message import HEADLINE_BLOCKS, render, render_merged
from knowledge.diagnosis import Outcome
from tests.slack import samples, scenes
from tests.slack.test_message import accepted, inert, shown

ALONE = {"before": None, "owner": None}
AT = datetime(2026, 11, 30, 9, 16, tzinfo=UTC)


def buttons(message: SlackMessage) -> list[str]:
    """The action ids in the order in which they are shown."""
    rows = [block for block in message.blocks if block["type"] == "actions"]
    return [element["action_id"] for row in rows for element in row["elements"]]


def parts(scene: str) -> list[SlackMessage]:
    """All messages of a scene, with those of its threads."""
    flat = [each for part in scenes.ALL[scene]() for each in (part if isinstance(part, list) else [part])]
    return [part for part in flat if isinstance(part, SlackMessage)]


@pytest.mark.parametrize("scene", scenes.ALL)
def test_every_scene_fits_slack(scene: str) -> None:
    for message in parts(scene):
        accepted(message)


def test_the_buttons_are_within_the_blocks_that_slack_never_hides() -> None:
    fullest = scenes.lost_gpu(
        state=State.ACKNOWLEDGED, acknowledged_by="U0BOB", members=scenes.storm_members(20), member_count=20
    )
    assert len(fullest.blocks) - HEADLINE_BLOCKS == 5
    assert [block["type"] for block in fullest.blocks[-2:]] == ["actions", "table"]


def test_the_owner_is_mentioned_once_in_the_place_of_the_scheduler_s_name() -> None:
    message = scenes.lost_gpu(before=None)
    assert message.blocks[1]["elements"][0]["text"].endswith("cluster alps · <@U0ALICE>")
    assert str(message.blocks).count("<@") == 1
    assert message.text.count("<@") == 1
    assert "alice" not in shown(message)


@pytest.mark.parametrize("owner", ["alice", "<!channel>", "U0ALICE> <!here", "u0alice"])
def test_what_is_no_id_of_a_person_is_not_mentioned(owner: str) -> None:
    inert(scenes.lost_gpu(before=None, owner=owner))


def test_without_an_episode_there_is_nothing_to_click() -> None:
    assert buttons(scenes.lost_gpu(episode_id=None)) == []


@pytest.mark.parametrize(
    ("more", "offered"),
    [
        ({}, ["acknowledge", "assign", "resolve", "mute", "rediagnose", "right", "wrong"]),
        (
            {"state": State.ACKNOWLEDGED, "acknowledged_by": "U0BOB"},
            ["assign", "resolve", "mute", "rediagnose", "right", "wrong"],
        ),
        ({"state": State.RESOLVED, "resolved_by": "U0BOB"}, ["reopen", "rediagnose", "right", "wrong"]),
        (
            {"state": State.MUTED, "muted_until": AT},
            ["acknowledge", "assign", "resolve", "unmute", "rediagnose", "right", "wrong"],
        ),
        (
            {"state": State.MUTED, "muted_until": AT, "acknowledged_by": "U0BOB"},
            ["assign", "resolve", "unmute", "rediagnose", "right", "wrong"],
        ),
    ],
    ids=["open", "acknowledged", "resolved", "muted", "muted and acknowledged"],
)
def test_the_buttons_change_with_the_state(more: dict[str, Any], offered: list[str]) -> None:
    assert buttons(scenes.lost_gpu(**more)) == offered


def test_a_job_that_did_not_fail_can_only_be_judged() -> None:
    job, diagnosis, _ = samples.time_limit()
    fine = diagnosis.model_copy(update={"outcome": Outcome.NOT_A_FAILURE})
    assert buttons(render(job, fine, scenes.standing())) == ["rediagnose", "right", "wrong"]


def test_what_cannot_be_recognised_again_cannot_be_muted() -> None:
    job, diagnosis, _ = samples.gpu_lost()
    unknown = diagnosis.model_copy(update={"fingerprint": ""})
    assert "mute" not in buttons(render(job, unknown, scenes.standing()))


def test_a_click_tells_its_episode_and_nothing_else_does() -> None:
    row = scenes.lost_gpu().blocks[-1]
    assert episode_of({"block_id": row["block_id"]}) == scenes.EPISODE
    for foreign in ("", "b12", "episode/", "episode/x/../y/00000000", f"episode/{scenes.EPISODE}/nothex!!"):
        assert episode_of({"block_id": foreign}) is None
    assert episode_of({}) is None


def test_the_row_gets_a_new_id_when_it_shows_something_else() -> None:
    """Slack keeps what a person chose in a select as long as its block has the same id."""
    before, after = scenes.lost_gpu(), scenes.lost_gpu(assignee="U0BOB")
    assert before.blocks[-1]["block_id"] != after.blocks[-1]["block_id"]
    assert before.blocks[-1]["block_id"] == scenes.lost_gpu().blocks[-1]["block_id"]


def test_the_select_shows_who_has_it() -> None:
    (assign,) = (
        each for each in scenes.lost_gpu(assignee="U0BOB").blocks[-1]["elements"] if each["action_id"] == "assign"
    )
    assert assign["initial_user"] == "U0BOB"


def test_mutes_are_an_hour_a_night_a_week() -> None:
    assert {value: timedelta(hours=hours) for value, (hours, _) in MUTES.items()} == {
        "1h": timedelta(hours=1),
        "8h": timedelta(hours=8),
        "7d": timedelta(days=7),
    }


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            {"state": State.ACKNOWLEDGED, "acknowledged_by": "U0BOB", "acknowledged_at": AT, "assignee": "U0ALICE"},
            "Acknowledged by @U0BOB, 30 Nov 09:16 UTC · assigned to @U0ALICE",
        ),
        (
            {"state": State.RESOLVED, "resolved_by": "U0BOB", "resolved_at": AT, "resolution": "node-drained"},
            "Resolved by @U0BOB, 30 Nov 09:16 UTC: node drained",
        ),
        (
            {"state": State.RESOLVED, "resolved_by": "U0BOB", "resolution": "other", "note": "a fire & <!here>"},
            "Resolved by @U0BOB: “a fire & <!here>”",
        ),
        (
            {"state": State.MUTED, "muted_by": "U0BOB", "muted_until": AT},
            "Muted in this channel by @U0BOB until 30 Nov 09:16 UTC",
        ),
        ({"recovered_by": "attempt 2"}, "Attempt 2 ran to its end"),
        ({"assignee": "U0ALICE"}, "Assigned to @U0ALICE"),
    ],
)
def test_what_was_done_stands_first_beside_the_bar_and_in_the_fallback(more: dict[str, Any], line: str) -> None:
    message = scenes.lost_gpu(**ALONE, **more)
    assert shown(SlackMessage("", [message.blocks[HEADLINE_BLOCKS]], "")) == f"| {line}"
    told = shown(SlackMessage("", [{"type": "context", "elements": [{"type": "mrkdwn", "text": message.text}]}], ""))
    assert f"| {line}" in told.split("\n")


def test_a_recovered_job_is_blue_until_somebody_closes_it() -> None:
    assert scenes.recovered().colour == "#1d9bd1"
    assert "· recovered" in scenes.recovered().blocks[0]["text"]["text"]
    closed = scenes.lost_gpu(recovered_by="attempt 2", state=State.RESOLVED)
    assert closed.colour == "#2eb886"
    assert "recovered" not in closed.blocks[0]["text"]["text"]


def test_recurrence_says_when_where_and_how_it_ended_last_time() -> None:
    line = shown(scenes.lost_gpu()).split("\n")[-1]
    assert line == (
        "| 3rd time since 2 Nov, last on 14 Nov, on gpu-n17, gpu-n03. Last time resolved by bob: node drained, "
        f"“GPU reseated by the vendor” · earlier message: {scenes.LINK}"
    )


def test_nobody_having_resolved_it_is_said() -> None:
    before = Before(None, None, None, None, None)
    assert "Last time nobody said how it was resolved" in shown(scenes.lost_gpu(before=before))


def test_attempts_of_one_job_are_counted_and_listed_in_a_line() -> None:
    message = shown(scenes.lost_gpu(members=scenes.attempts(), member_count=3, occurrences=3, before=None))
    assert "failed after 6 h 12 m · 3 attempts" in message
    assert "Attempts: 3rd at 09:12 UTC on gpu-n17, 2nd at 08:12 UTC on gpu-n17, 1st at 07:12 UTC on gpu-n17" in message
    assert "first time seen" in message  # this time is not an earlier time


def test_a_storm_is_one_message_with_the_newest_jobs_and_how_many_more() -> None:
    message = render(*scenes.storm(500))
    accepted(message)
    (table,) = (block for block in message.blocks if block["type"] == "table")
    assert message.blocks[0]["text"]["text"] == "🔴 500 failures: Stale NFS file handle"
    assert len(table["rows"]) == 22
    assert [cell["text"] for cell in table["rows"][1]] == ["48900 llama-70b-pretrain", "alice", "gpu-n00", "09:12"]
    assert table["rows"][-1][0]["text"] == "… and 480 more"
    assert "🔴 500 failures: Stale NFS file handle" in message.text
    assert "rank" not in shown(message).split("\n")[4]  # one job's ranks say nothing of the others


def test_a_long_verdict_leaves_fewer_rows_rather_than_an_unsendable_message() -> None:
    job, diagnosis, status = scenes.storm(500)
    words, line = "remount " * 60, diagnosis.evidence[0].model_copy(update={"text": "stale " * 90})
    verify = [step.model_copy(update={"run": words, "expect": words}) for step in diagnosis.verify * 3]
    long = diagnosis.model_copy(
        update={"fix": [words] * 6, "evidence": [line] * 3, "verify": verify, "missing": [words]}
    )
    message = render(job, long, status)
    accepted(message)
    (table,) = (block for block in message.blocks if block["type"] == "table")
    assert 5 < len(table["rows"]) < 22


def test_hostile_members_stay_inert() -> None:
    job, diagnosis, status = scenes.storm(3)
    hostile = Member("i", "<!channel>", 1, "<@U0BOB>\x1b[31m", "<https://evil.test|x>", "a\nb", None)
    message = render(job, diagnosis, replace(status, members=(hostile, *status.members)))
    accepted(message)
    inert(message)


def test_a_message_whose_incidents_another_tells_is_one_line() -> None:
    message = render_merged(samples.gpu_lost()[0], scenes.LINK)
    assert shown(message) == f"| ⚪ llama-70b-pretrain failed as many jobs did: folded into one message: {scenes.LINK}."
    assert "folded into one message." in render_merged(samples.gpu_lost()[0], None).text
    accepted(message)
