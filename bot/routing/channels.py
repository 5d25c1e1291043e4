"""Channels by their ids, and the channels that a job asks for in its comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

MOST_ASKED = 5
"""Channels that one job may ask for."""

_ID = re.compile(r"[CGD][A-Z0-9]{2,79}")
_ASKED = re.compile(r"(?<![\w-])slack-channel\s?[=:]\s?([^\s;|\"']{1,500})", re.IGNORECASE)
_NAMING = {"channel", "channels", "instead"}


def is_channel_id(text: str) -> bool:
    """Return whether `text` looks like the id of a channel."""
    return _ID.fullmatch(text) is not None


def _checked(value: Any) -> Any:
    if isinstance(value, str) and not is_channel_id(value):
        raise ValueError("give the channel's id (C…, G… or D…, at the bottom of its About tab), not its name")
    return value


ChannelId = Annotated[str, BeforeValidator(_checked)]


def asked_for(comment: str | None) -> tuple[str, ...]:
    """Return what stands behind each `slack-channel=` of a job's comment, each once; ids are not checked.

    >>> asked_for("ablation 3; slack-channel=C0TEAM,C0NIGHT")
    ('C0TEAM', 'C0NIGHT')
    """
    lists = _ASKED.findall((comment or "")[:10_000])
    return tuple(dict.fromkeys(part for found in lists for part in found.split(",") if part))


def named_in(settings: BaseModel) -> tuple[str, ...]:
    """Return every channel that stands anywhere in the settings, each once, in their order."""
    return tuple(dict.fromkeys(_named(settings)))


def _named(value: Any, naming: bool = False) -> Iterator[str]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _named(getattr(value, name), name in _NAMING)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, str) and is_channel_id(key):
                yield key
            yield from _named(inner, key in _NAMING)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _named(inner, naming)
    elif naming and isinstance(value, str) and is_channel_id(value):
        yield value
