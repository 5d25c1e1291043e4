"""`/diagnose digest`: the digest of the last days, now."""

from __future__ import annotations

import re

from bot.digest.task import Digests
from bot.slack.commands import COMMAND, Answer, Answered, Invocation
from bot.slack.escape import code

LONGEST = 92  # days


def digest(digests: Digests) -> Answer:
    """Return the answer to the word; a number behind it is a number of days."""

    async def answer(asked: Invocation) -> str | Answered:
        found = re.fullmatch(r"(\d{0,4})\s*(?:d|days?)?", asked.arguments, re.IGNORECASE)
        days = int(found[1] or 7) if found else 0
        if not 1 <= days <= LONGEST:
            return f"Say it like {code(f'{COMMAND} digest 14d', 80)}, up to {LONGEST} days."
        message, plain = await digests.show(asked.channel, days)
        return Answered(message.text, message.blocks, plain.blocks)

    return answer
