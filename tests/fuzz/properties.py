"""What holds for every input."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from knowledge import Diagnosis, diagnose
from knowledge.errors import UnreadableEvidence
from knowledge.reading import clocks, exits, identity, novelty, prefixes, progress
from knowledge.reading.compressed import open_log
from knowledge.reading.text import _ANSI, _CONTROL
from knowledge.redaction import PLACEHOLDER, redact_bytes
from tests.fuzz.mutations import SECRET

PATIENCE = 20  # CPU seconds for an input of at most some hundred kilobytes; a healthy one takes a hundredth of that


@contextmanager
def in_time() -> Iterator[None]:
    """Raise TimeoutError in what takes longer than PATIENCE. Works only in a main thread."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"took longer than {PATIENCE} s of CPU time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def written(files: Mapping[str, bytes], job: Any) -> Iterator[Path]:
    """Lay a bundle out as a folder, for as long as it is needed."""
    folder = Path(tempfile.mkdtemp(prefix="firstfault-fuzz-"))
    try:
        (folder / "logs").mkdir()
        for name, data in files.items():
            path = folder / "logs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (folder / "job.json").write_text(job if isinstance(job, str) else json.dumps(job))
        yield folder
    finally:
        shutil.rmtree(folder)


def check_bundle(files: Mapping[str, bytes], job: Any) -> Diagnosis | None:
    """A diagnosis keeps its contract, or says in one line why there is none."""
    with written(files, job) as folder:
        return check_folder(folder)


def check_folder(folder: Path) -> Diagnosis | None:
    """As `check_bundle`, for a folder."""
    try:
        with in_time():
            diagnosis = diagnose([folder])
    except UnreadableEvidence as error:
        refusal = str(error)
    else:
        return _checked(diagnosis, folder)
    assert refusal
    assert "\n" not in refusal
    return None


def _checked(diagnosis: Diagnosis, folder: Path) -> Diagnosis:
    document = diagnosis.model_dump_json(by_alias=True)
    assert Diagnosis.model_validate_json(document) == diagnosis
    assert SECRET[:20] not in document
    assert 0 <= diagnosis.confidence <= 1
    assert diagnosis.collateral.count >= len(diagnosis.collateral.ranks)
    assert all(rank >= 0 for rank in [*diagnosis.initiating.ranks, *diagnosis.collateral.ranks])
    assert not set(diagnosis.initiating.ranks) & set(diagnosis.collateral.ranks)
    assert len(document) < 2_000_000
    assert all(_printable(text) for text in _texts(json.loads(document)))
    for line in diagnosis.evidence:
        _check_line_exists(folder / "logs", line.source, line.line, line.text)
    return diagnosis


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _printable(text: str) -> bool:
    return not any(ord(character) < 32 and character not in "\n\t" for character in text) and "\x7f" not in text


def _check_line_exists(logs: Path, source: str, line: int, text: str) -> None:
    path = logs / source
    assert path.is_file(), source
    if "trace" in source or source.endswith((".pkl", ".json")):
        return  # of a dump, `line` is an entry
    with open_log(path) as log:
        raw = log.read().split(b"\n")
    assert 1 <= line <= len(raw), (source, line)
    said = _plain(raw[line - 1].decode("utf-8", "replace"))
    position = 0
    for part in PLACEHOLDER.split(text):
        position = said.find(_plain(part).strip(), position)
        assert position >= 0, (source, line, text, said[:1000])


def _plain(text: str) -> str:
    """The line without escapes and control characters, however long it is."""
    return "".join(_CONTROL.sub("", _ANSI.sub("", piece)) for piece in text.split("\r"))


def check_line(line: str) -> None:
    """Every reader of single lines takes every line."""
    for year in (1, 1970, 2026, 9999):
        when = clocks.parse_time(line, year)
        assert when is None or -(10**12) < when.seconds < 10**13
    prefix, rest = prefixes.strip_prefix(line, prefixes.learn_habits([line] * 8))
    assert line.endswith(rest)
    assert prefix.rank is None or prefix.rank >= 0
    identity.introduce(line)
    identity.nccl_process(line)
    identity.may_introduce(line)
    progress.step_of(line)
    progress.occupation(line)
    progress.is_training(line)
    novelty.constant_part(line)
    assert len(exits.expand(line)) <= exits.MOST


def check_redaction(data: bytes, redaction: Callable[[bytes], bytes] = redact_bytes) -> None:
    """Redaction keeps lines, is done once, and what is no secret stays."""
    with in_time():
        once = redaction(data)
        twice = redaction(once)
    assert twice == once
    assert once.count(b"\n") == data.count(b"\n")
    assert SECRET.encode() not in once


def check_found(path: Path, hook: Callable[[bytes], bytes]) -> None:
    """Check an input that was found before, by the ending of its name."""
    data = path.read_bytes()
    if path.name.endswith(".bundle.gz"):
        bundle = json.loads(gzip.decompress(data))
        check_bundle({name: bytes.fromhex(text) for name, text in bundle["files"].items()}, bundle["job"])
    elif path.suffix == ".line":
        check_line(data.decode("utf-8", "surrogateescape"))
    else:
        check_redaction(data, hook if path.suffix == ".hook" else redact_bytes)
