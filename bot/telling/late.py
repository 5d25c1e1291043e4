"""A message that comes late says so, and how many more wait."""

from __future__ import annotations

from dataclasses import replace

from bot.slack import phrases, rich
from bot.slack.contract import SlackMessage
from storage.outbox import Claimed


def punctual(message: SlackMessage, claimed: Claimed, late_seconds: float) -> SlackMessage:
    """Return the message, with a remark where it has waited longer than `late_seconds` for Slack. Replies are silent."""
    if claimed.late < late_seconds or claimed.thread is not None:
        return message
    more = f", {claimed.behind} more waiting" if claimed.behind else ""
    remark = f"Delayed by {phrases.duration(claimed.late)}: Slack takes one message a second in a channel{more}."
    return replace(message, text=f"{message.text}\n{remark}"[:4_000], blocks=[*message.blocks, rich.context(remark)])
