"""The hook as a program of a person who has no site's installation: with settings made for one call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import hooks

HOOK = Path(hooks.__file__).parent / "slurm" / "firstfault-hook"


def call(bot: str | None, token_file: Path | None, *arguments: str, files: dict[str, Path | str] | None = None) -> int:
    """Run the hook with these arguments; `{folder}` in them is a private folder that holds `files`: texts, or links.

    Without `bot` and `token_file`, the person's own settings or the site's are used. Exit status: the hook's.
    """
    if (bot is None) != (token_file is None):
        print("firstfault: --bot and --token-file go together", file=sys.stderr)
        return 2
    try:
        if bot and token_file:
            address(bot)
            token_in(token_file)
            if token_file.stat().st_mode & 0o077:
                raise WrongOptionError(f"others may read {token_file}; run: chmod 600 {token_file}")
    except WrongOptionError as error:
        print(f"firstfault: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="firstfault-") as name:
        folder = Path(name)
        for path, content in (files or {}).items():
            if isinstance(content, Path):
                (folder / path).symlink_to(content)
            else:
                (folder / path).write_text(content, "utf-8")
        command = [sys.executable, "-I", str(HOOK)]
        if bot and token_file:
            cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            config = folder / "hook.conf"
            config.touch(mode=0o600)
            settings = {"url": bot, "token_file": token_file.resolve(), "spool": f"{cache}/firstfault/spool"}
            if scontrol := shutil.which("scontrol"):
                settings["slurm_bin"] = Path(scontrol).parent
            config.write_text("[hook]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()), "utf-8")
            command += ["--config", str(config)]
        try:
            words = [word.replace("{folder}", name) for word in arguments]
            return subprocess.run(
                [*command, *words], env={**os.environ, "FIRSTFAULT_NAME": "firstfault"}, check=False
            ).returncode
        except KeyboardInterrupt:
            return 130


class WrongOptionError(Exception):
    """An option cannot be used; the message names it."""


def address(bot: str) -> str:
    """`--bot`, once it looks like an address. Raises WrongOptionError."""
    if not re.fullmatch(r"https?://[^/\s@]+(/\S*)?", bot):
        raise WrongOptionError(f"--bot must be like https://firstfault.example.com, not {bot!r}")
    return bot


def token_in(token_file: Path) -> str:
    """The token in the file of `--token-file`. Raises WrongOptionError."""
    try:
        token = token_file.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "no plain text"
        raise WrongOptionError(f"--token-file {token_file} cannot be read ({why})") from None
    if not re.fullmatch(r"[!-~]{16,200}", token):
        raise WrongOptionError(
            f"--token-file {token_file} must hold one token of 16 to 200 visible characters and nothing else"
        )
    return token
