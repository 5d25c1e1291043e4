"""Who may see what: a channel sees what was told in it."""

from __future__ import annotations

import json

from sqlalchemy import ColumnElement, String, cast, true
from sqlmodel import col

from storage.tables import Episode


def told_in(channel: str | None) -> ColumnElement[bool]:
    """Episodes told in `channel`; None: all. JSON lists are text alike on both databases, and quotes end a channel's id."""
    if channel is None:
        return true()
    return cast(col(Episode.channels), String).contains(json.dumps(channel), autoescape=True)
