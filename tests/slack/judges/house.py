"""Our own judge, of what the others miss: sizes over all, mentions and links that nobody meant, invisible characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from bot.slack.message import MAX_BLOCKS, MAX_CHARACTERS, MAX_TEXT
from tests.slack import blockkit
from tests.slack.judges.sent import Payload

MEANT = re.compile(
    r"<@U0(?:ALICE|BOB|CAROL)>|<#C0[A-Z]+>|<https?://[\w.:-]*(?:example\.test|127\.0\.0\.1)[^\s<>|]*\|[^<>|]+>"
)
"""What may be live: the persons and channels of the tests, and our own links, never with another's name in front."""


def problems(payload: Payload) -> list[str]:
    """Return what is wrong with a message or a view as a whole."""
    found = [*_invisible(_strings(payload.content)), *_live(blockkit.parsed_texts(payload.blocks))]
    if payload.kind == "view":
        return found + blockkit.view_problems(payload.content)
    text, blocks, bars = (payload.content[key] for key in ("text", "blocks", "attachments"))
    found += blockkit.problems(blocks) + blockkit.attachment_problems(bars) + blockkit.message_problems(blocks, bars)
    found += _live([text])
    if not text.strip() or len(text) > MAX_TEXT:
        found.append(f"text of {len(text)} characters")
    if len(payload.blocks) > MAX_BLOCKS:
        found.append(f"{len(payload.blocks)} blocks")
    if blockkit.size(blocks, bars) > MAX_CHARACTERS:
        found.append(f"{blockkit.size(blocks, bars)} characters")
    identities = [block["block_id"] for block in payload.blocks if "block_id" in block]
    if len(identities) != len(set(identities)):
        found.append("a block_id is there twice")
    return found


def _live(texts: Iterable[str]) -> list[str]:
    return [f"live: {found}" for text in texts for found in blockkit.live(text) if not MEANT.fullmatch(found)]


def _invisible(texts: Iterable[str]) -> list[str]:
    found = {
        character
        for text in texts
        if not (text.isascii() and text.isprintable())
        for character in text
        if character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"}
    }
    return [f"invisible: {character!r}" for character in sorted(found)]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
