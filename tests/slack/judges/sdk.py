"""The judge that comes with slack_sdk: it parses, validates, and must say the same again."""

from __future__ import annotations

from typing import Any

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.attachments import BlockAttachment
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

from tests.slack.judges.sent import Payload

UNKNOWN = frozenset({"data_visualization"})
"""Blocks that Slack takes and slack_sdk does not know yet."""


def problems(payload: Payload) -> list[str]:
    """Return what slack_sdk does not take, or understands otherwise."""
    found = [problem for block in payload.blocks for problem in _block(block)]
    try:
        if payload.kind == "view":
            found += _same(View(**payload.content).to_dict(), payload.content, "view")
        for bar in payload.content.get("attachments", ()):
            BlockAttachment(blocks=bar["blocks"], color=bar["color"]).to_dict()
    except (SlackObjectFormationError, TypeError) as error:
        found.append(str(error))
    return found


def _block(block: dict[str, Any]) -> list[str]:
    kind = str(block.get("type"))
    if kind in UNKNOWN:
        return []
    try:
        parsed = Block.parse(block)
        return [f"{kind}: not known"] if parsed is None else _same(parsed.to_dict(), block, kind)
    except (SlackObjectFormationError, TypeError) as error:
        return [f"{kind}: {error}"]


def _same(understood: dict[str, Any], given: dict[str, Any], kind: str) -> list[str]:
    return [f"{kind}: {key} is lost or changed" for key in given if understood.get(key) != given[key]]
