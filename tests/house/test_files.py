"""What stands in the repository: where, how long, and what must never be in it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TOP_LEVEL = {
    *(".ci", ".dockerignore", ".gitattributes", ".gitignore", "Dockerfile"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"),
    *("Makefile", "pyproject.toml", "requirements.lock", "requirements-build.lock", "requirements-dev.lock"),
    *("benchmarks", "bot", "docs", "helm", "hooks", "knowledge", "storage", "tests"),
}

MAX_LINES = 400
LONG_FOR_A_REASON = {
    "hooks/slurm/firstfault-hook": "made of hooks/slurm/source: one file is all that a site has to copy to its nodes",
}
CODE = {".py", ".sh", ".tpl"}

# Lines that came out of real programs are evidence: they hold whatever paths and names those programs print.
EVIDENCE = ("tests/cases/", "tests/knowledge/benign/")

HERE = [re.escape(str(folder)) for folder in (ROOT, Path.home()) if len(folder.parts) > 1]
FORBIDDEN = {
    "a path of this machine": re.compile(rf"(?<![\w./-])(?:{'|'.join(HERE)})(?![\w-])"),
    "a package registry": re.compile(
        r"(?:pypi|pythonhosted|npmjs|crates|docker|ghcr|quay|gcr)\.(?:org|com|io)\b|registry\.\w+\.(?:org|com)"
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/]{60}"),
    "a real Slack token": re.compile(r"xox[abprs]-\d{9,}-\d{9,}-[A-Za-z0-9]{16,}"),
}


def tracked() -> Iterator[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    yield from (name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file())


def test_the_top_level_is_the_known_set() -> None:
    assert {name.split("/")[0] for name in tracked()} == TOP_LEVEL


def test_no_file_of_code_is_longer_than_one_idea() -> None:
    lengths = {
        name: (ROOT / name).read_bytes().count(b"\n")
        for name in tracked()
        if Path(name).suffix in CODE or name in LONG_FOR_A_REASON
    }
    long = {name for name, lines in lengths.items() if lines > MAX_LINES}
    assert long == set(LONG_FOR_A_REASON), "split what is new here; take off the list what has become short"


def test_nothing_in_a_file_belongs_to_one_machine_or_one_person() -> None:
    found = []
    for name in tracked():
        if name.startswith(EVIDENCE) or name == Path(__file__).relative_to(ROOT).as_posix():
            continue
        content = (ROOT / name).read_bytes()
        if b"\0" in content[:8000]:
            continue
        text = content.decode("utf-8", "replace")
        for what, pattern in FORBIDDEN.items():
            found += [f"{name}: {what}: {match[0]!r}" for match in pattern.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (f'File "{ROOT}/train.py"', "a path of this machine"),
        (f"--index-url https://{'pypi'}.org/simple", "a package registry"),
        ("xoxb-123456789012-123456789012-AbCdEfGhIjKlMnOpQrStUvWx", "a real Slack token"),
    ],
)
def test_the_search_finds_what_it_looks_for(line: str, what: str) -> None:
    assert FORBIDDEN[what].search(line)


def test_no_file_has_a_name_that_other_systems_cannot_hold() -> None:
    names = list(tracked())
    assert [name for name in names if re.search(r'[<>:"\\|?*\x00-\x1f]', name)] == []
    assert len({name.lower() for name in names}) == len(names)
