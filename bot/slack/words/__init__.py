"""What `/diagnose status`, `mute`, `unmute`, `digest` and `history` answer. Each sees only what its channel was told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bot.digest.task import Digests
from bot.slack.commands import Commands
from bot.slack.contract import Posted
from bot.slack.words.history import history
from bot.slack.words.muting import mute, unmute
from bot.slack.words.numbers import digest
from bot.slack.words.status import status
from storage.actions import Actions
from storage.history import Histories


def register(
    commands: Commands,
    *,
    histories: Histories,
    actions: Actions,
    digests: Digests,
    health: Callable[[], Awaitable[str]],
    changed: Callable[[], None],
    link: Callable[[Posted], str | None],
) -> None:
    """Teach the slash command these words.

    `health` says in one line how the service is, as plain text; `changed` is called after a mute, so that messages are
    edited; `link` knows the address of a message.
    """
    commands.register("status", "what is open in this channel, and whose it is", status(histories, link, health))
    commands.register(
        "mute", "what is muted here; `mute JOB 8h` mutes a job's failure", mute(histories, actions, changed)
    )
    commands.register("unmute", "ends a mute: `unmute JOB`", unmute(histories, actions, changed))
    commands.register("digest", "the last seven days of this channel", digest(digests))
    commands.register("history", "what a node, user, cause or job did: `history node gpu-n17`", history(histories))
