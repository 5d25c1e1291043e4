"""The two modals: how an incident was resolved, and what would have been the right verdict."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from bot.slack import phrases, rich
from bot.slack.escape import clean, cut
from knowledge.causes import load_causes

View = dict[str, Any]
Input = dict[str, Any]

RESOLUTION = "resolution"
CORRECTION = "correction"
MAX_NOTE = 1_000
MAX_RANKS = 4_096  # numbers in one correction

REASON, CAUSE, RANKS, NOTE = "reason", "cause", "ranks", "note"

_RANGE = re.compile(r"(\d{1,7})(?:[-\u2013](\d{1,7}))?")


@dataclass(frozen=True, slots=True)
class Asked:
    """Where a modal came from."""

    episode_id: str
    channel: str
    thread: str | None


@dataclass(frozen=True, slots=True)
class Wrong:
    """What cannot be taken as it is: a sentence for each input, by the input's block."""

    errors: dict[str, str]


@dataclass(frozen=True, slots=True)
class Resolution:
    """How it was resolved."""

    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class Correction:
    """What would have been right, as far as the person knows. `cause` is an id of causes.yaml."""

    ranks: tuple[int, ...]
    cause: str | None
    note: str

    def detail(self) -> dict[str, Any]:
        """Return it as it is stored: only what was said."""
        said = {"ranks": list(self.ranks), "cause": self.cause, "note": self.note}
        return {name: value for name, value in said.items() if value}


def resolution(episode_id: str, channel: str, thread: str | None) -> View:
    """Return the modal that asks how an incident was resolved."""
    options = [_option(text[0].upper() + text[1:], value) for value, text in phrases.RESOLUTIONS.items()]
    reason = {"type": "static_select", "action_id": REASON, "options": options, "placeholder": rich.words("Choose one")}
    hint = "What was done, a ticket, a commit: whoever sees this failure next will read it."
    return _modal(
        RESOLUTION,
        "Resolve incident",
        "Resolve",
        Asked(episode_id, channel, thread),
        [_input(REASON, "How was it resolved?", reason), _input(NOTE, "Note", _note(), hint=hint, optional=True)],
    )


def correction(episode_id: str, channel: str, thread: str | None) -> View:
    """Return the modal that asks what the right verdict would have been."""
    cause = {"type": "static_select", "action_id": CAUSE, "placeholder": rich.words("Type to search")}
    ranks = {"type": "plain_text_input", "action_id": RANKS, "max_length": 300, "placeholder": rich.words("3, 8-15")}
    return _modal(
        CORRECTION,
        "What would be right?",
        "Send",
        Asked(episode_id, channel, thread),
        [
            _input(CAUSE, "The cause", {**cause, "option_groups": _causes()}, optional=True),
            _input(RANKS, "The ranks that began it", ranks, optional=True),
            _input(NOTE, "How do you know?", _note(), hint="What you leave out counts as right.", optional=True),
        ],
    )


def asked(view: View) -> Asked:
    """Return where a submitted modal came from. Raises ValueError for one that is not ours."""
    known = json.loads(view.get("private_metadata") or "{}")
    if not isinstance(known, dict) or not known.get("episode") or not known.get("channel"):
        raise ValueError("the modal does not say what it is about")
    return Asked(str(known["episode"]), str(known["channel"]), known.get("thread"))


def resolution_of(view: View) -> Resolution | Wrong:
    """Return what was submitted, or what is wrong with it."""
    given = _given(view)
    reason, note = given.get(REASON) or "", _clean(given.get(NOTE))
    if reason not in phrases.RESOLUTIONS:
        return Wrong({REASON: "Choose one of the reasons."})
    if reason == "other" and not note:
        return Wrong({NOTE: "Say in a few words what it was."})
    return Resolution(reason, note)


def correction_of(view: View) -> Correction | Wrong:
    """Return what was submitted, or what is wrong with it."""
    given = _given(view)
    cause, note = given.get(CAUSE) or None, _clean(given.get(NOTE))
    if cause is not None and cause not in load_causes():
        return Wrong({CAUSE: "Choose one of the causes."})
    try:
        ranks = numbers(given.get(RANKS) or "")
    except ValueError as error:
        return Wrong({RANKS: str(error)})
    if not (ranks or cause or note):
        return Wrong({NOTE: "Say at least one thing: the cause, the ranks, or how you know."})
    return Correction(ranks, cause, note)


def numbers(text: str) -> tuple[int, ...]:
    """Read ranks as people write them. Raises ValueError, in words for them.

    >>> numbers("rank 3, 8-10 and 12")
    (3, 8, 9, 10, 12)
    """
    words = re.sub(r"\branks?\b|\band\b|[,;]", " ", text.lower())
    found: set[int] = set()
    for word in re.sub(r"\s*([-\u2013])\s*", r"\1", words).split():
        match = _RANGE.fullmatch(word)
        if match is None:
            raise ValueError("Write numbers and ranges, such as 3, 8-15.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_RANKS:
            raise ValueError(f"{word} is no range of at most {MAX_RANKS:,} ranks.")
        found.update(range(first, last + 1))
        if len(found) > MAX_RANKS:
            raise ValueError(f"At most {MAX_RANKS:,} ranks can be named.")
    return tuple(sorted(found))


def _modal(callback: str, title: str, submit: str, about: Asked, blocks: list[dict[str, Any]]) -> View:
    known = {"episode": about.episode_id, "channel": about.channel, "thread": about.thread}
    return {
        "type": "modal",
        "callback_id": callback,
        "private_metadata": json.dumps(known),
        "title": rich.words(title),
        "submit": rich.words(submit),
        "close": rich.words("Cancel"),
        "blocks": blocks,
    }


def _input(name: str, label: str, element: Input, hint: str = "", *, optional: bool = False) -> Input:
    block = {"type": "input", "block_id": name, "label": rich.words(label), "element": element, "optional": optional}
    return {**block, "hint": rich.words(hint)} if hint else block


def _note() -> Input:
    return {"type": "plain_text_input", "action_id": NOTE, "multiline": True, "max_length": MAX_NOTE}


def _option(text: str, value: str) -> dict[str, Any]:
    return {"text": rich.words(cut(text, 75)), "value": value}


@cache
def _causes() -> list[dict[str, Any]]:
    """All causes by layer; Slack lets people type to search among them."""
    layers: dict[str, list[dict[str, Any]]] = {"in general": []}
    for cause in load_causes().values():
        layer = "in general" if cause.layer in ("unknown", "none") else cause.layer.replace("-", " ")
        layers.setdefault(layer, []).append(_option(cause.title, cause.id))
    return [{"label": rich.words(phrases.capital(layer)), "options": options} for layer, options in layers.items()]


def _given(view: View) -> dict[str, str | None]:
    """What was typed or chosen, by block."""
    given: dict[str, str | None] = {}
    for block, inputs in ((view.get("state") or {}).get("values") or {}).items():
        for entry in inputs.values():
            option = entry.get("selected_option")
            given[block] = option.get("value") if option else entry.get("value")
    return given


def _clean(text: str | None) -> str:
    """A note without what a database or a message could choke on."""
    return cut(clean(text or "").strip(), MAX_NOTE)
