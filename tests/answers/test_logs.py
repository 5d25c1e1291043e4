"""Reading a log again: the lines asked for, with the numbers that an editor shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from bot.answers import logs
from bot.answers.logs import FolderLogs

BEGAN = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


def _line(number: int) -> str:
    return f"{BEGAN + timedelta(seconds=number):%Y-%m-%d %H:%M:%S},000 INFO step {number} loss 2.5"


@pytest.fixture(params=["small", "large", "packed"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FolderLogs, int]:
    """A log of one line a second, and how many it has."""
    count = 400 if request.param == "small" else 60_000
    data = "".join(f"{_line(number)}\n" for number in range(1, count + 1)).encode()
    path = tmp_path / "rank-0.log"
    path.write_bytes(zstandard.compress(data) if request.param == "packed" else data)
    return FolderLogs({"rank-0.log": path}), count


async def test_the_last_lines_have_their_numbers(log: tuple[FolderLogs, int]) -> None:
    files, count = log
    lines = await files.tail("rank-0.log", 3)
    assert [(line.number, line.text) for line in lines] == [(n, _line(n)) for n in range(count - 2, count + 1)]


async def test_only_wanted_lines_count(log: tuple[FolderLogs, int]) -> None:
    files, count = log
    lines = await files.tail("rank-0.log", 2, lambda text: text.endswith("00 loss 2.5"))
    assert [line.number for line in lines] == [count - 100, count]


async def test_lines_around_a_line(log: tuple[FolderLogs, int]) -> None:
    files, _ = log
    lines = await files.around("rank-0.log", 200, 2)
    assert [(line.number, line.text) for line in lines] == [(n, _line(n)) for n in range(198, 203)]


async def test_lines_around_a_moment(log: tuple[FolderLogs, int]) -> None:
    files, _ = log
    lines = await files.at("rank-0.log", BEGAN + timedelta(seconds=300), 1)
    assert [line.number for line in lines] == [299, 300, 301]


async def test_lines_without_a_time_do_not_hide_a_moment(tmp_path: Path) -> None:
    texts = [line for n in range(1, 200) for line in (_line(n), "    a line of a traceback")]
    (tmp_path / "log").write_text("\n".join(texts))
    lines = await FolderLogs({"log": tmp_path / "log"}).at("log", BEGAN + timedelta(seconds=150), 2)
    assert _line(150) in [line.text for line in lines]


async def test_a_progress_bar_shows_its_last_state(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"first\r 10%\r 20%\r 30%\nsecond")
    lines = await FolderLogs({"log": tmp_path / "log"}).tail("log", 5)
    assert [(line.number, line.text) for line in lines] == [(1, " 30%"), (2, "second")]


async def test_secrets_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("export HF_TOKEN=hf_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z\n")
    [line] = await FolderLogs({"log": tmp_path / "log"}).tail("log", 5)
    assert "hf_aB3" not in line.text


async def test_a_log_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    files = FolderLogs({"log": tmp_path / "gone"})
    assert await files.tail("log", 5) == []
    assert await files.tail("../../etc/passwd", 5) == []


async def test_nobody_gets_more_lines_than_an_answer_holds(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(map(str, range(5000))))
    files = FolderLogs({"log": tmp_path / "log"})
    assert len(await files.tail("log", 5000)) == logs.MAX_LINES
    assert len(await files.around("log", 2000, 5000)) <= logs.MAX_LINES + 1
