"""The image as a builder makes it, run as the chart's pods are: no root, nothing writable but two folders, no rights."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

pytestmark = pytest.mark.image

ROOT = Path(__file__).parents[2]
BASE = ROOT / ".cache" / "image-base.tar"
MACHINE = ("/etc/ssl/certs", "/etc/pip.conf")
"""What the builder is lent, since a registry of packages may be behind a proxy with a certificate of its own."""


class Podman:
    """A store of images that goes with the tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def command(self, *arguments: str) -> list[str]:
        """The command line, for this store alone."""
        store = ["--root", str(self._folder / "store"), "--runroot", str(self._folder / "run")]
        return [
            "podman", *store, "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", "runc", *arguments
        ]  # fmt: skip

    def __call__(self, *arguments: str, seconds: float = 120) -> str:
        """What it says. Fails the test when it fails."""
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, timeout=seconds, cwd=ROOT
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def confined(self, image: str, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        """The command line of a container that may do what the chart's pods may."""
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
        rights = [
            "--read-only",
            "--cap-drop",
            "all",
            "--security-opt",
            "no-new-privileges",
            "--tmpfs",
            "/tmp:mode=1777",
        ]
        return self.command("run", "--rm", "--network", "host", *limits, *rights, *options, image, *command)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """A builder. Fails where there is none: whoever asks for these tests wants an image built."""
    if shutil.which("podman") is None or not BASE.exists():
        pytest.fail("nothing to build an image with: `make test-image` makes what is needed")
    folder = tmp_path_factory.mktemp("podman")
    made = Podman(folder)
    yield made
    subprocess.run(made.command("system", "reset", "--force"), capture_output=True, check=False, timeout=120)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def image(podman: Podman) -> str:
    """The image's name, built by the Dockerfile from nothing but this working tree."""
    podman("import", "--quiet", str(BASE), "localhost/python:base")
    lent = [f"--volume={path}:{path}:ro" for path in MACHINE if Path(path).exists()]
    podman(
        "build", "--isolation", "chroot", "--network", "host", "--pull-never", "--build-arg", "PYTHON=localhost/python:base",
        *lent, "--tag", "localhost/firstfault:test", ".", seconds=900,
    )  # fmt: skip
    return "localhost/firstfault:test"


def test_it_says_who_runs_and_what(podman: Podman, image: str) -> None:
    (found,) = json.loads(podman("image", "inspect", image))
    assert found["Config"]["User"] == "10001:10001"
    assert found["Config"]["Cmd"] == ["firstfault", "serve"]
    assert set(found["Config"]["ExposedPorts"]) == {"8642/tcp", "8643/tcp"}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["firstfault", "--version"], "firstfault "),
        (["firstfault", "catalogue", "search", "nccl", "timeout"], "nccl"),
        (["firstfault-watcher", "--help"], "--lease"),
        (
            ["python", "-c", "import os; print('user', os.getuid(), os.access('/opt/firstfault', os.W_OK))"],
            "user 10001 False",
        ),
    ],
    ids=["service", "catalogue", "watcher", "user"],
)
def test_its_programs_run_without_rights(podman: Podman, image: str, command: list[str], words: str) -> None:
    done = subprocess.run(podman.confined(image, *command), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_the_service_serves_and_stops_when_it_is_told_to(podman: Podman, image: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)  # Kubernetes gives the volume to the pod's group
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "FIRSTFAULT_SLACK__MODE": "console", "FIRSTFAULT_LISTEN__PORT": str(port),
        "FIRSTFAULT_CLUSTERS__KUBERNETES__TOKEN": "test-token-of-a-cluster-not-a-secret",
    }  # fmt: skip
    given = (f"--env={name}={value}" for name, value in settings.items())
    options = ("--name", "service", f"--volume={data}:/var/lib/firstfault", *given)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(podman.confined(image, options=options), stdout=log, stderr=log)
    try:
        assert _status(process, f"http://127.0.0.1:{port}/readyz/intake") == 200, (tmp_path / "log").read_text()
        podman("stop", "--time", "30", "service")
        assert process.wait(timeout=60) == 0, (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()
    assert (data / "firstfault.db").exists()


def _status(process: subprocess.Popen[bytes], url: str) -> int | None:
    """The status that is answered within a minute, or None where the process ends before."""
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        try:
            with urlopen(url, timeout=5) as answer:
                return int(answer.status)
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    return None
