"""The Dockerfile makes an image that runs both programs without rights. Its steps are replayed in an empty folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
Step = tuple[str, str]


def steps(stage: int) -> list[Step]:
    """The instructions of one stage, each with its argument."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if line and not line.startswith("#")]
    starts = [number for number, line in enumerate(lines) if line.startswith("FROM ")] + [len(lines)]
    found = lines[starts[stage] + 1 : starts[stage + 1]]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in found)]


def sent(path: str) -> bool:
    """Whether .dockerignore lets a file of the project through to the builder."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    parts = path.split("/")
    allowed = True
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        anywhere = "**/" in rule
        if any(fnmatch(part, pattern) for part in (parts if anywhere else parts[:1])):
            allowed = rule.startswith("!")
    return allowed


def test_only_sources_are_sent_to_the_builder() -> None:
    assert all(map(sent, ["bot/cli/main.py", "knowledge/catalogue/nccl/ofi-request-error.yaml", "requirements.lock"]))
    assert not any(map(sent, [".git/config", ".venv/bin/python", "tests/helm/test_image.py", "bot/__pycache__/x.pyc"]))


def test_every_package_is_checked_by_its_hash() -> None:
    installs = [text for word, text in steps(0) if word == "RUN" and "pip install" in text]
    assert all("--require-hashes" in text or "--no-deps --no-index" in text for text in installs)
    assert not [text for word, text in steps(0) if "pip wheel" in text and "--no-build-isolation" not in text]


def test_the_image_runs_as_the_user_of_the_chart_and_holds_no_build_tools() -> None:
    last = dict(steps(1))
    names = (ROOT / "helm/firstfault/templates/_names.tpl").read_text()
    assert last["USER"] == "10001:10001"
    assert "runAsUser: 10001" in names
    assert "RUN" not in last
    assert last["COPY"].startswith("--from=build /opt/firstfault ")


def test_the_image_has_the_chart_s_version() -> None:
    chart = yaml.safe_load((ROOT / "helm/firstfault/Chart.yaml").read_text())
    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for the image's root, after all steps of the first stage."""
    root = tmp_path_factory.mktemp("image")
    (root / "src").mkdir()
    for word, text in steps(0):
        if word == "COPY":
            *sources, target = text.split()
            for source in sources:
                _copy(source, root / "src" / target / (source if target == "./" else ""))
        elif word == "RUN":
            command = re.sub(r"(?<![\w.])/opt/", f"{root}/opt/", text)
            command = re.sub(r"^python ", f"{sys.executable} ", command)
            done = subprocess.run(
                ["sh", "-ec", command], cwd=root / "src", capture_output=True, text=True, check=False, timeout=900
            )
            assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return root


def _copy(source: str, target: Path) -> None:
    for path in _files(ROOT / source):
        name = path.relative_to(ROOT).as_posix()
        if sent(name):
            into = target if path == ROOT / source else target / path.relative_to(ROOT / source)
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, into)


def _files(path: Path) -> Iterator[Path]:
    yield from (each for each in sorted(path.rglob("*")) if each.is_file()) if path.is_dir() else [path]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["firstfault", "--version"], "firstfault "),
        (["firstfault", "catalogue", "search", "nccl", "timeout"], "nccl"),
        (["firstfault-watcher", "--help"], "--lease"),
        (["python", "-c", "import kubernetes_asyncio, hooks.kubernetes.watcher; print('loaded')"], "loaded"),
    ],
    ids=["service", "catalogue", "watcher", "its library"],
)
def test_what_the_steps_made_runs(image: Path, tmp_path: Path, command: list[str], words: str) -> None:
    program, *arguments = command
    environment = {"PATH": f"{image}/opt/firstfault/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [f"{image}/opt/firstfault/bin/{program}", *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
