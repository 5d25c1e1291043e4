"""Command line: `firstfault`."""

from bot.cli.start import app

__all__ = ["app"]
