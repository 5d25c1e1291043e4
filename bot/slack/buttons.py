"""What people can do with a message: the row of buttons, which changes with the state."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from bot.slack import phrases, rich
from bot.slack.contract import Block, IncidentStatus, State
from knowledge.diagnosis import Diagnosis, Outcome

Element = dict[str, Any]

ACKNOWLEDGE = "acknowledge"
ASSIGN = "assign"
RESOLVE = "resolve"
REOPEN = "reopen"
MUTE = "mute"
UNMUTE = "unmute"
REDIAGNOSE = "rediagnose"
RIGHT = "right"
WRONG = "wrong"

MUTES = {"1h": (1, "1 hour"), "8h": (8, "8 hours"), "7d": (168, "7 days")}
"""What can be chosen to mute: the value, hours, and words."""

_BLOCK = re.compile(r"episode/([0-9a-zA-Z_-]{1,64})/[0-9a-f]{8}")


def row(diagnosis: Diagnosis, status: IncidentStatus) -> Block | None:
    """Return the buttons that make sense now; None for a message that belongs to no episode."""
    if status.episode_id is None:
        return None
    failed = diagnosis.outcome is Outcome.FAILED
    elements = _deeds(status, mutable=bool(diagnosis.fingerprint)) if failed else []
    elements.append(_button(REDIAGNOSE, "Re-diagnose", "Diagnose this again from the stored logs", status))
    elements.append(_button(RIGHT, "👍", "The verdict is right", status))
    elements.append(_button(WRONG, "👎", "The verdict is wrong: say what would be right", status))
    return {"type": "actions", "block_id": _block_id(status), "elements": elements}


def episode_of(action: dict[str, Any]) -> str | None:
    """Return which episode a click is about, or None where the click is not one of ours."""
    found = _BLOCK.fullmatch(str(action.get("block_id") or ""))
    return found[1] if found else None


def _deeds(status: IncidentStatus, *, mutable: bool) -> list[Element]:
    if status.state is State.RESOLVED:
        return [_button(REOPEN, "Reopen", "Open this incident again", status)]
    elements = []
    if status.acknowledged_by is None:
        elements.append(_button(ACKNOWLEDGE, "Acknowledge", "Tell everybody that you look after it", status, "primary"))
    elements.append(_assign(status))
    elements.append(_button(RESOLVE, "Resolve", "Close this incident and say how", status))
    if status.state is State.MUTED:
        elements.append(_button(UNMUTE, "Unmute", "Post again when this failure recurs", status))
    elif mutable and status.muted_until is None:
        elements.append(_mute())
    return elements


def _button(action: str, text: str, label: str, status: IncidentStatus, style: str | None = None) -> Element:
    shown = {"type": "plain_text", "text": text, "emoji": True}
    button = {"type": "button", "action_id": action, "text": shown, "accessibility_label": label}
    return {**button, "value": status.episode_id, **({"style": style} if style else {})}


def _assign(status: IncidentStatus) -> Element:
    select = {"type": "users_select", "action_id": ASSIGN, "placeholder": rich.words("Assign to …")}
    known = status.assignee and re.fullmatch(r"[UW][A-Z0-9]{1,30}", status.assignee)
    return {**select, "initial_user": status.assignee} if known else select


def _mute() -> Element:
    options = [{"text": rich.words(f"for {text}"), "value": value} for value, (_, text) in MUTES.items()]
    return {"type": "static_select", "action_id": MUTE, "placeholder": rich.words("Mute …"), "options": options}


def _block_id(status: IncidentStatus) -> str:
    """The episode, and a mark that changes with what is shown: Slack keeps what was chosen under an unchanged id."""
    shown = (status.state, status.acknowledged_by, status.assignee, status.muted_until, phrases.stands(status))
    mark = hashlib.sha256(repr(shown).encode()).hexdigest()[:8]
    return f"episode/{status.episode_id}/{mark}"
