"""`/diagnose WORD …`: one slash command, many words. Other rooms register theirs here."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.slack.escape import code, mrkdwn

COMMAND = "/diagnose"
MAX_ANSWER = 3_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Invocation:
    """Who asked, where, and what stood behind the word."""

    user: str
    channel: str
    arguments: str


Answer = Callable[[Invocation], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _Known:
    summary: str
    answer: Answer


class Commands:
    """The words that the slash command knows. `help` is always among them and is the answer to an empty line."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self.register("help", "this list", self._help)

    def register(self, word: str, summary: str, answer: Answer) -> None:
        """Add a word. `answer` returns mrkdwn, foreign text in it escaped. Raises ValueError if the word is taken."""
        if word in self._known:
            raise ValueError(f"{COMMAND} {word} is registered twice")
        self._known[word] = _Known(summary, answer)

    async def answer(self, line: str, user: str, channel: str) -> str:
        """Return the answer to what was typed behind the command; a failing answer is logged and owned up to."""
        word, _, arguments = line.strip().partition(" ")
        asked = Invocation(user=user, channel=channel, arguments=arguments.strip())
        known = self._known.get(word.lower() or "help")
        if known is None:
            return f"I do not know {code(word, 60)}.\n{await self._help(asked)}"
        try:
            return await known.answer(asked)
        except Exception:
            log.exception("slash command failed", extra={"word": word})
            return f"{mrkdwn(word, 60)} failed on my side. The service's log says why."

    async def _help(self, asked: Invocation) -> str:  # noqa: ARG002
        words = [f"{code(f'{COMMAND} {word}', 80)}  {known.summary}" for word, known in sorted(self._known.items())]
        return "\n".join(["What I understand:", *words, "Slack takes no slash commands in threads; use the channel."])
