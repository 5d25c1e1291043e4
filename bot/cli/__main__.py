"""`python -m bot.cli` is `firstfault`."""

from bot.cli import app

app()
