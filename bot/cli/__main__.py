"""`python -m bot.cli` is `firstfault`."""

from bot.cli.main import app

app(prog_name="firstfault")
