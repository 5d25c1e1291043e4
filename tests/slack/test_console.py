"""Without Slack: the terminal shows the message, the file remembers it."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.slack.console import ConsolePoster
from bot.slack.contract import Refused, SlackFile
from bot.slack.message import render
from bot.slack.terminal import as_text
from tests.slack import samples

EARLIER = datetime.now(UTC) - timedelta(hours=1)
MESSAGE = render(*samples.python_exception())


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


async def test_the_message_is_shown_and_recorded(tmp_path: Path) -> None:
    stream = io.StringIO()
    posted = await ConsolePoster(tmp_path / "messages.jsonl", stream).post("train-failures", MESSAGE, "key")
    assert "ValueError in collate (data.py:88) on node-b (rank 2)" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    recorded = json.loads((tmp_path / "messages.jsonl").read_text())
    assert recorded["action"] == "post"
    assert (recorded["channel"], recorded["ts"], recorded["key"]) == (posted.channel, posted.ts, "key")
    assert (recorded["text"], recorded["blocks"], recorded["colour"]) == (MESSAGE.text, MESSAGE.blocks, MESSAGE.colour)


async def test_another_process_finds_what_was_posted(tmp_path: Path) -> None:
    record = tmp_path / "messages.jsonl"
    posted = await ConsolePoster(record, io.StringIO()).post("train-failures", MESSAGE, "key")
    after_a_crash = ConsolePoster(record, io.StringIO())
    assert await after_a_crash.find("train-failures", "key", EARLIER) == posted
    assert await after_a_crash.find("train-failures", "other", EARLIER) is None
    assert await after_a_crash.find("elsewhere", "key", EARLIER) is None
    assert await after_a_crash.find("train-failures", "key", datetime.now(UTC) + timedelta(hours=1)) is None


async def test_an_update_is_recorded_under_the_same_key(tmp_path: Path) -> None:
    stream, record = io.StringIO(), tmp_path / "messages.jsonl"
    poster = ConsolePoster(record, stream)
    posted = await poster.post("train-failures", MESSAGE, "key")
    await poster.update(posted.channel, posted.ts, render(*samples.time_limit()))
    actions = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(action["action"], action["ts"], action["key"]) for action in actions] == [
        ("post", posted.ts, "key"),
        ("update", posted.ts, "key"),
    ]
    assert "(edited)" in stream.getvalue()


async def test_what_was_never_posted_cannot_be_edited(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        await ConsolePoster(tmp_path / "messages.jsonl", io.StringIO()).update("train-failures", "1.0", MESSAGE)


async def test_a_line_cut_off_by_a_crash_does_not_hide_the_others(tmp_path: Path) -> None:
    record = tmp_path / "messages.jsonl"
    posted = await ConsolePoster(record, io.StringIO()).post("train-failures", MESSAGE, "key")
    record.write_text(record.read_text() + '{"action": "post", "chan')
    poster = ConsolePoster(record, io.StringIO())
    assert await poster.find("train-failures", "key", EARLIER) == posted
    later = await poster.post("train-failures", MESSAGE, "later")
    assert await poster.find("train-failures", "later", EARLIER) == later


async def test_a_terminal_gets_the_bar_in_the_states_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    await ConsolePoster(tmp_path / "messages.jsonl", stream).post("train-failures", MESSAGE, "key")
    assert "\x1b[38;2;198;40;40m▌" in stream.getvalue()


async def test_no_color_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    await ConsolePoster(tmp_path / "messages.jsonl", stream).post("train-failures", MESSAGE, "key")
    assert "\x1b" not in stream.getvalue()


async def test_a_terminal_without_unicode_still_shows_the_words(tmp_path: Path) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    await ConsolePoster(tmp_path / "messages.jsonl", stream).post("train-failures", MESSAGE, "key")
    assert b"ValueError in collate" in raw.getvalue()


def test_words_wrap_and_log_lines_do_not() -> None:
    lines = as_text(render(*samples.host_oom()), width=60).split("\n")
    log = [line for line in lines if line.startswith("|     ")]
    assert any("Memory cgroup out of memory" in line and "oom_score_adj:0" in line for line in log)
    assert all(len(line) <= 60 or line.startswith("|     ") or "https://" in line for line in lines)


async def test_replies_and_files_of_a_thread_are_shown_and_found(tmp_path: Path) -> None:
    stream, record = io.StringIO(), tmp_path / "messages.jsonl"
    poster = ConsolePoster(record, stream)
    parent = await poster.post("train-failures", MESSAGE, "parent")
    reply = await poster.post("train-failures", MESSAGE, "reply", parent.ts)
    file = await poster.upload("train-failures", parent.ts, SlackFile("rank-2.err", "Log of rank 2", "ValueError\n"))
    assert "↳ in its thread" in stream.getvalue()
    assert "rank-2.err (11 characters)" in stream.getvalue()
    after_a_crash = ConsolePoster(record, io.StringIO())
    assert await after_a_crash.find("train-failures", "reply", EARLIER, parent.ts) == reply
    assert await after_a_crash.find("train-failures", "reply", EARLIER) is None
    assert await after_a_crash.find_file("train-failures", parent.ts, "rank-2.err") == file
    assert await after_a_crash.find_file("train-failures", parent.ts, "rank-3.err") is None
