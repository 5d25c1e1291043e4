"""Command line: `firstfault`."""

from bot.cli.main import app

__all__ = ["app"]
