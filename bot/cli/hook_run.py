"""The hook as a program of a person who has no site's installation: with settings made for one call."""

from __future__ import annotations

import os
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
            return subprocess.run(
                [*command, *(word.replace("{folder}", name) for word in arguments)], check=False
            ).returncode
        except KeyboardInterrupt:
            return 130
