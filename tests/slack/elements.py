"""What Slack accepts as buttons, selects and inputs, as far as its pages and its users say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Item = dict[str, Any]

_FIRST = {
    "static_select": "initial_option",
    "users_select": "initial_user",
    "external_select": "initial_option",
    "channels_select": "initial_channel",
    "conversations_select": "initial_conversation",
}
_IN_ACTIONS = {"button", "overflow", "datepicker", "radio_buttons", "checkboxes", *_FIRST}
_IN_INPUTS = {"plain_text_input", "number_input", "radio_buttons", "checkboxes", "datepicker", "file_input", *_FIRST}
_IN_SECTIONS = _IN_ACTIONS | {"image"}


def keys(item: Item, needed: set[str], allowed: set[str], place: str = "") -> list[str]:
    """Return what is missing and what should not be there."""
    label = f"{place}: " if place else ""
    missing, unknown = needed - item.keys(), item.keys() - needed - allowed
    return [f"{label}misses {key}" for key in sorted(missing)] + [
        f"{label}unknown key {key}" for key in sorted(unknown)
    ]


def text(item: Any, limit: int, kinds: set[str]) -> Iterator[str]:
    """Check a text object."""
    if not isinstance(item, dict) or item.get("type") not in kinds:
        yield f"text must be one of {sorted(kinds)}"
        return
    extra = {"emoji"} if item["type"] == "plain_text" else {"verbatim"}
    yield from keys(item, {"type", "text"}, extra)
    if not isinstance(item.get("text"), str) or not 1 <= len(item["text"]) <= limit:
        yield f"text must have 1 to {limit} characters"


def plain(item: Any, limit: int) -> Iterator[str]:
    """Check a text object that must be plain."""
    yield from text(item, limit, {"plain_text"})


def actions(block: Item) -> Iterator[str]:
    """Check an `actions` block."""
    yield from keys(block, {"type", "elements"}, {"block_id"})
    if not 1 <= len(block.get("elements", [])) <= 25:
        yield "1 to 25 elements"
    for element in block.get("elements", []):
        yield from _element(element, _IN_ACTIONS, modal=False)


def context_actions(block: Item) -> Iterator[str]:
    """Check a `context_actions` block: feedback and icon buttons."""
    yield from keys(block, {"type", "elements"}, {"block_id"})
    if not 1 <= len(block.get("elements", [])) <= 5:
        yield "1 to 5 elements"
    for element in block.get("elements", []):
        if element.get("type") == "feedback_buttons":
            yield from keys(element, {"type", "positive_button", "negative_button"}, {"action_id"})
            for side in ("positive_button", "negative_button"):
                yield from keys(element.get(side, {}), {"text", "value"}, {"accessibility_label"})
                yield from plain(element.get(side, {}).get("text"), 75)
        elif element.get("type") != "icon_button":
            yield f"element {element.get('type')} does not belong into context_actions"


def input_block(block: Item) -> Iterator[str]:
    """Check an `input` block."""
    optional = {"block_id", "optional", "hint", "dispatch_action"}
    yield from keys(block, {"type", "label", "element"}, optional)
    yield from plain(block.get("label"), 2_000)
    if "hint" in block:
        yield from plain(block["hint"], 2_000)
    yield from _element(block.get("element", {}), _IN_INPUTS, modal=True)


def accessory(element: Item) -> Iterator[str]:
    """Check what stands beside a section."""
    yield from _element(element, _IN_SECTIONS, modal=False)


def action_ids(blocks: list[Item]) -> Iterator[str]:
    """Yield the action ids of all elements, of each block in turn."""
    for block in blocks:
        elements = [*block.get("elements", []), block.get("accessory"), block.get("element")]
        for element in elements:
            if isinstance(element, dict) and "action_id" in element:
                yield element["action_id"]


def _element(element: Item, allowed: set[str], *, modal: bool) -> Iterator[str]:
    kind = element.get("type", "")
    if kind not in allowed:
        yield f"element {kind!r} does not belong here"
        return
    if kind != "image" and not 1 <= len(element.get("action_id", "")) <= 255:
        yield f"{kind}: action_id must have 1 to 255 characters"
    if "confirm" in element:
        yield from _confirm(element["confirm"])
    if "placeholder" in element:
        yield from plain(element["placeholder"], 150)
    if kind == "button":
        yield from _button(element)
    elif kind in {"static_select", "external_select", "radio_buttons", "checkboxes", "overflow"}:
        yield from _choices(element, kind)
    elif kind in {"users_select", "channels_select", "conversations_select"}:
        more = {"confirm", "placeholder", "focus_on_load", _FIRST[kind], "response_url_enabled", "filter"}
        yield from keys(element, {"type", "action_id"}, more)
    elif kind == "plain_text_input":
        more = {"placeholder", "initial_value", "multiline", "min_length", "max_length", "focus_on_load"}
        yield from keys(element, {"type", "action_id"}, more | {"dispatch_action_config"})
        if not 1 <= element.get("max_length", 1) <= 3_000:
            yield "max_length must be 1 to 3000"
        if len(element.get("initial_value", "")) > element.get("max_length", 3_000):
            yield "initial_value is longer than max_length"
        if not modal:
            yield "inputs belong into input blocks"


def _button(element: Item) -> Iterator[str]:
    yield from keys(element, {"type", "text", "action_id"}, {"value", "url", "style", "confirm", "accessibility_label"})
    yield from plain(element.get("text"), 75)
    if not 1 <= len(element.get("value", "x")) <= 2_000:
        yield "value must have 1 to 2000 characters"
    if len(element.get("url", "")) > 3_000:
        yield "url of more than 3000 characters"
    if element.get("style", "primary") not in {"primary", "danger"}:
        yield "style must be primary or danger"
    if not 1 <= len(element.get("accessibility_label", "x")) <= 75:
        yield "accessibility_label of more than 75 characters"


def _choices(element: Item, kind: str) -> Iterator[str]:
    more = {"placeholder", "initial_option", "initial_options", "confirm", "focus_on_load", "min_query_length"}
    yield from keys(element, {"type", "action_id"}, more | {"options", "option_groups"})
    if kind == "external_select":
        return
    if ("options" in element) == ("option_groups" in element):
        yield "needs options or option_groups, not both"
    most = {"overflow": 5, "radio_buttons": 10, "checkboxes": 10}.get(kind, 100)
    groups = element.get("option_groups", [])
    if len(groups) > 100:
        yield "more than 100 groups"
    for group in groups:
        yield from keys(group, {"label", "options"}, set())
        yield from plain(group.get("label"), 75)
    every: list[Item] = []
    for options in (group["options"] for group in groups) if groups else (element.get("options", []),):
        if not 1 <= len(options) <= most:
            yield f"1 to {most} options"
        every += options
    for option in every:
        yield from keys(option, {"text", "value"}, {"description", "url"})
        yield from text(option.get("text"), 75, {"plain_text", "mrkdwn"} if most == 10 else {"plain_text"})
        if not 1 <= len(option.get("value", "")) <= 150:
            yield "an option's value must have 1 to 150 characters"
        if "description" in option:
            yield from text(option["description"], 75, {"plain_text", "mrkdwn"})
    if len({option.get("value") for option in every}) != len(every):
        yield "two options have one value"
    if "initial_option" in element and element["initial_option"] not in every:
        yield "initial_option is not among the options"


def _confirm(confirm: Item) -> Iterator[str]:
    yield from keys(confirm, {"title", "text", "confirm", "deny"}, {"style"})
    yield from plain(confirm.get("title"), 100)
    yield from text(confirm.get("text"), 300, {"plain_text", "mrkdwn"})
    yield from plain(confirm.get("confirm"), 30)
    yield from plain(confirm.get("deny"), 30)
