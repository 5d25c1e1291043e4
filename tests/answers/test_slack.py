"""Questions in Slack: answered in the thread where they were asked, once, and only where they may be."""

from __future__ import annotations

import json

from storage.actions import Click
from tests.answers.conftest import CASES, Desk, words
from tests.slack.patience import until
from tests.slack.workspace import CHANNEL

GPU_ECC = "simulated/s107"
OTHER = "sequences/q09"


async def test_a_question_in_our_thread_needs_no_mention(desk: Desk) -> None:
    ts = await desk.fails(GPU_ECC)
    await desk.slack.write("why rank 11?", thread_ts=ts)
    answer = await desk.answer(ts)
    assert "gn038" in answer
    assert "dmesg-gn038.txt:16" in answer


async def test_the_log_is_read_from_the_store(desk: Desk) -> None:
    ts = await desk.fails(GPU_ECC)
    await desk.slack.write("last 3 lines of rank 12", thread_ts=ts)
    answer = await desk.answer(ts)
    stored = (CASES / GPU_ECC / "logs" / "rank_12.log").read_text().strip().split("\n")
    assert f"rank_12.log:{len(stored)}" in answer


async def test_a_mention_elsewhere_is_answered_in_a_thread_and_says_what_about(desk: Desk) -> None:
    await desk.fails(GPU_ECC)
    asked = await desk.slack.mention("what happened?")
    answer = await desk.answer(asked["ts"])
    assert "llama (48213)" in answer
    assert "gn038" in answer


async def test_a_job_can_be_named(desk: Desk) -> None:
    await desk.fails(GPU_ECC, "48213")
    await desk.fails(OTHER, "48300")
    asked = await desk.slack.mention("why did 48213 die")
    assert "gn038" in await desk.answer(asked["ts"])


async def test_each_question_has_one_answer_however_often_slack_repeats_it(desk: Desk) -> None:
    ts = await desk.fails(GPU_ECC)
    await desk.slack.mention("how do I fix it?", thread_ts=ts, retry=2)
    await desk.answer(ts)
    await desk.settles()
    assert len(desk.answers(ts)) == 1


async def test_talk_among_people_is_left_alone(desk: Desk) -> None:
    ts = await desk.fails(GPU_ECC)
    await desk.slack.write("I'll drain that node and tell infra about the ecc error", thread_ts=ts)
    await desk.slack.write("<@U0BOB> can you restart it on other nodes?", thread_ts=ts)
    await desk.slack.write("thanks", thread_ts=ts)
    await desk.settles()
    assert desk.answers(ts) == []


async def test_other_threads_and_channels_are_not_listened_to(desk: Desk) -> None:
    await desk.fails(GPU_ECC)
    said = await desk.slack.write("why did it die?")
    await desk.slack.write("why did it die?", thread_ts=said["ts"])
    await desk.settles()
    assert desk.answers(said["ts"]) == []


async def test_edits_and_bots_are_not_answered(desk: Desk) -> None:
    desk.slack.echo = True
    ts = await desk.fails(GPU_ECC)
    said = await desk.slack.write("why?", thread_ts=ts)
    await desk.answer(ts)
    await desk.slack.edit(said["ts"], "why rank 11?")
    await desk.settles()
    assert len(desk.answers(ts)) == 1


async def test_what_is_not_understood_gets_the_list(desk: Desk) -> None:
    ts = await desk.fails(GPU_ECC)
    await desk.slack.write("what's the weather like?", thread_ts=ts)
    answer = await desk.answer(ts)
    assert "I did not understand" in answer
    assert "is it safe to restart" in answer


async def test_a_file_dropped_with_a_mention_is_diagnosed(desk: Desk) -> None:
    content = (CASES / "injected/i001/logs/rank-4.stderr.log").read_bytes()
    said = await desk.drops("rank-4.stderr.log", content)
    answer = await desk.answer(said)
    assert "cannot be broadcast" in answer
    assert "rank-4.stderr.log:25" in answer


async def test_a_file_may_come_with_a_question(desk: Desk) -> None:
    content = (CASES / "injected/i001/logs/rank-4.stderr.log").read_bytes()
    said = await desk.drops("rank-4.stderr.log", content, "how do I fix this?")
    assert "Print both shapes" in await desk.answer(said)


async def test_a_page_to_log_in_is_no_log(desk: Desk) -> None:
    desk.slack.workspace.missing_scopes.add("files:read")
    said = await desk.drops("rank-0.log", b"Traceback (most recent call last):\n")
    assert "files:read" in await desk.answer(said)


async def test_a_file_that_is_too_large_is_not_fetched(desk: Desk) -> None:
    said = await desk.drops("rank-0.log", b"x" * (2 << 20))
    assert "larger than 1 MiB" in await desk.answer(said)


async def test_the_shortcut_diagnoses_the_lines_of_a_message(desk: Desk) -> None:
    said = await desk.slack.write(
        "look:\n```\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total "
        "capacity of 79.10 GiB of which 1.00 GiB is free.\n```"
    )
    await desk.slack.shortcut(said["ts"], "diagnose_log")
    answer = await desk.answer(said["ts"])
    assert "GPU memory" in answer
    assert "pasted.log" in answer


async def test_diagnose_job_answers_whoever_asked(desk: Desk) -> None:
    await desk.fails(GPU_ECC)
    await desk.slack.slash("48213")
    [shown] = await until(lambda: desk.slack.responses)
    assert "gn038" in json.dumps(shown["blocks"])
    assert shown["response_type"] == "ephemeral"


async def test_diagnose_takes_a_link_to_the_message(desk: Desk) -> None:
    ts = await desk.fails(GPU_ECC)
    await desk.fails(OTHER, "48300")
    await desk.slack.slash(f"https://example.test/archives/{CHANNEL}/p{ts.replace('.', '')} restart ok?")
    [shown] = await until(lambda: desk.slack.responses)
    assert "gn038" in json.dumps(shown["blocks"])
    assert "Restart" in json.dumps(shown["blocks"])


async def test_diagnose_of_an_unknown_job_says_so(desk: Desk) -> None:
    await desk.fails(GPU_ECC)
    await desk.slack.slash("99999")
    [shown] = await until(lambda: desk.slack.responses)
    assert "No failure" in shown["text"]
    assert "gn038" not in json.dumps(shown)


async def test_diagnose_alone_opens_a_modal_with_the_last_failures(desk: Desk) -> None:
    await desk.fails(GPU_ECC)
    await desk.slack.slash("")
    await until(lambda: desk.slack.called("views.update"))
    view = desk.slack.views.opened[-1]
    assert "48213" in json.dumps(view)
    chosen = view["blocks"][1]["element"]["options"][0]["value"]
    await desk.slack.submit(view, {"pasted": None, "chosen": chosen})
    [shown] = await until(lambda: desk.slack.workspace.ephemerals)
    assert "gn038" in words(shown)


async def test_what_is_pasted_into_the_modal_is_diagnosed(desk: Desk) -> None:
    await desk.slack.slash("")
    view = await until(lambda: desk.slack.views.opened and desk.slack.views.opened[-1])
    line = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79 GiB"
    await desk.slack.submit(view, {"pasted": line})
    [shown] = await until(lambda: desk.slack.workspace.ephemerals)
    assert "GPU memory" in words(shown)


async def test_who_is_on_it_is_known_by_name(desk: Desk) -> None:
    ts = await desk.fails(GPU_ECC)
    episode = await desk.repository.episodes.at(CHANNEL, ts)
    assert episode is not None
    await desk.repository.actions.acknowledge(Click("k1", episode, "U0BOB", "bob", CHANNEL))
    await desk.slack.write("who's on it?", thread_ts=ts)
    answer = await desk.answer(ts)
    assert "alice's" in answer
    assert "@U0BOB" in answer


async def test_what_was_seen_before_is_told_with_who_resolved_it(desk: Desk) -> None:
    first = await desk.fails(GPU_ECC, "48213")
    episode = await desk.repository.episodes.at(CHANNEL, first)
    assert episode is not None
    await desk.repository.actions.resolve(Click("k1", episode, "U0BOB", "bob", CHANNEL), "node drained", "RMA 77")
    ts = await desk.fails(GPU_ECC, "48999")
    await desk.slack.write("have we seen this before? who fixed it and how?", thread_ts=ts)
    answer = await desk.answer(ts)
    assert "2 times" in answer
    assert "@U0BOB" in answer
    assert "RMA 77" in answer


async def test_what_changed_is_compared_with_the_run_before(desk: Desk) -> None:
    await desk.fails("simulated/s107", "48213")
    ts = await desk.fails("simulated/s066", "48999")
    await desk.slack.write("what changed since the last run?", thread_ts=ts)
    answer = await desk.answer(ts)
    assert "job 48213" in answer
    assert "world size: 16 → 32" in answer


async def test_what_is_open_needs_no_incident(desk: Desk) -> None:
    desk.users["U0ALICE"] = ("alice",)
    await desk.fails(GPU_ECC, "48213", user="alice")
    await desk.fails(OTHER, "48300", user="carol")
    said = await desk.slack.write("Which failures are open, and who has them?", channel="D0ALICE")
    answer = await desk.answer(said["ts"], "D0ALICE")
    assert "48213" in answer
    assert "48300" not in answer
