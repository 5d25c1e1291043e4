"""pyproject.toml, the lock files and the import contracts say the same thing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hooks.slurm.assemble import HOOK, SOURCE, assembled

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUNTIME = "requirements.lock"
DEVELOPMENT = "requirements-dev.lock"

_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)", re.MULTILINE)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return {canonical(found["name"]): found["version"] for found in _PINNED.finditer(text)}


def named(requirements: list[str]) -> set[str]:
    return {canonical(re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]) for requirement in requirements}


def test_every_dependency_is_locked() -> None:
    runtime = named(PROJECT["project"]["dependencies"])
    development = named(PROJECT["dependency-groups"]["dev"])
    assert runtime - set(pins(RUNTIME)) == set()
    assert (runtime | development) - set(pins(DEVELOPMENT)) == set()


def test_developers_test_the_versions_that_are_installed() -> None:
    assert pins(RUNTIME).items() <= pins(DEVELOPMENT).items()


@pytest.mark.parametrize("lock", [RUNTIME, DEVELOPMENT])
def test_a_lock_holds_hashes_and_no_addresses(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    requirements = text.replace("\\\n", " ").splitlines()
    unhashed = [line for line in requirements if _PINNED.match(line) and "--hash=sha256:" not in line]
    assert unhashed == []
    assert re.findall(r"\w+://\S+|--(?:extra-)?index-url|--find-links|--trusted-host", text) == []


def test_every_dependency_has_its_reason_written_down() -> None:
    table = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = {canonical(name) for name in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)}
    direct = named(PROJECT["project"]["dependencies"]) | named(PROJECT["dependency-groups"]["dev"])
    assert explained == direct


def test_rooms_import_only_what_they_may() -> None:
    result = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


def test_the_hook_is_made_of_its_modules() -> None:
    assert HOOK.read_text("utf-8") == assembled(), "`make hook` makes it anew"


def test_two_modules_of_the_hook_never_give_one_name_to_two_things(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path, dirs_exist_ok=True)
    with (tmp_path / "spool.py").open("a") as spool:
        spool.write("\n\nclass Witness:\n    pass\n")
    with pytest.raises(ValueError, match=r"Witness is defined in spool\.py and in by_user\.py"):
        assembled(tmp_path)
