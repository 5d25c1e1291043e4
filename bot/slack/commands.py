"""`/diagnose WORD …`: one slash command, many words. Other rooms register theirs here."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from slack_bolt.async_app import AsyncRespond

from bot.slack.contract import Block
from bot.slack.escape import code, cut, mrkdwn

COMMAND = "/diagnose"
MAX_ANSWER = 3_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Invocation:
    """Who asked, where, and what stood behind the word. `mark` is Slack's own of this command, no two share one."""

    user: str
    channel: str
    arguments: str
    user_name: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """What the person who asked is shown, alone. `text` is mrkdwn, and all there is where `blocks` are empty.

    `otherwise` is shown where the workspace refuses `blocks`.
    """

    text: str
    blocks: list[Block] = field(default_factory=list)
    otherwise: list[Block] = field(default_factory=list)

    async def send(self, respond: AsyncRespond) -> None:
        """Show it to the person, by the address that came with the command."""
        text = cut(self.text, MAX_ANSWER)
        for blocks in (self.blocks, self.otherwise):
            if blocks:
                done = await respond(text=text, blocks=blocks, response_type="ephemeral", unfurl_links=False)
                if done.status_code == 200:
                    return
                log.warning("an answer was refused", extra={"status": done.status_code, "body": done.body[:200]})
        await respond(text=text, response_type="ephemeral", unfurl_links=False)


Answer = Callable[[Invocation], Awaitable[str | Answered | None]]
"""What answers a word; None: it has been answered otherwise, as by a modal."""


@dataclass(frozen=True, slots=True)
class _Known:
    summary: str
    answer: Answer


class Commands:
    """The words that the slash command knows. `help` is always among them and is the answer to an empty line."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._otherwise: Answer | None = None
        self._empty: Answer | None = None
        self.register("help", "this list", self._help)

    def register(self, word: str, summary: str, answer: Answer) -> None:
        """Add a word. `answer` returns mrkdwn, foreign text in it escaped. Raises ValueError if the word is taken."""
        if word in self._known:
            raise ValueError(f"{COMMAND} {word} is registered twice")
        self._known[word] = _Known(summary, answer)

    def register_rest(self, otherwise: Answer, empty: Answer) -> None:
        """Let `otherwise` answer lines that begin with no known word, of which it is given all, and `empty` an empty line."""
        self._otherwise, self._empty = otherwise, empty

    async def answer(
        self, line: str, user: str, channel: str, *, user_name: str = "", mark: str = ""
    ) -> Answered | None:
        """Return the answer to what was typed behind the command; a failing answer is logged and owned up to.

        None: it has been answered otherwise.
        """
        word, _, arguments = line.strip().partition(" ")
        asked = Invocation(user, channel, arguments.strip(), user_name, mark)
        known = self._known.get(word.lower() or "help")
        chosen = known.answer if known else None
        if not word and self._empty:
            chosen = self._empty
        elif chosen is None and self._otherwise:
            chosen, asked = self._otherwise, Invocation(user, channel, line.strip(), user_name, mark)
        if chosen is None:
            return Answered(f"I do not know {code(word, 60)}.\n{await self._help(asked)}")
        try:
            answer = await chosen(asked)
        except Exception:
            log.exception("slash command failed", extra={"word": word})
            return Answered(f"{mrkdwn(word, 60)} failed on my side. The service's log says why.")
        return Answered(answer) if isinstance(answer, str) else answer

    async def _help(self, asked: Invocation) -> str:  # noqa: ARG002
        words = [f"{code(f'{COMMAND} {word}', 80)}  {known.summary}" for word, known in sorted(self._known.items())]
        if self._otherwise:
            words.insert(
                0,
                f"{code(f'{COMMAND} JOB', 80)}  what is known of a job, or of the incident behind a link; add a question",
            )
        return "\n".join(["What I understand:", *words, "Slack takes no slash commands in threads; use the channel."])
