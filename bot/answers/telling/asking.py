"""What can be asked."""

from __future__ import annotations

from bot.answers.reply import Reply, Steps, Words
from bot.answers.understanding import intents


def help_() -> Reply:
    """The list of what can be asked."""
    return Reply("help", (Words("Ask in your own words, for instance:"), _list()))


def digest() -> Reply:
    """Where the numbers of the week are."""
    told = "The week's numbers are posted in the channel. `/diagnose digest` shows them now, and `firstfault digest` in a terminal."
    return Reply("digest", (Words(told),))


def not_understood() -> Reply:
    """The same list, for a question that was not understood."""
    return Reply(
        "", (Words("I did not understand that, and will not guess. What can be asked about an incident:"), _list())
    )


def _list() -> Steps:
    return Steps(tuple(f"{intent.title}: “{intent.example}”" for intent in intents().values() if intent.name != "help"))
