"""What Slack accepts as blocks, as far as its pages and its users say: stricter where they are silent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.slack import elements, tables
from tests.slack.elements import keys as _keys
from tests.slack.elements import text as _text

MAX_BLOCKS = 50
MAX_VIEW_BLOCKS = 100
MAX_CHARACTERS = 13_200  # undocumented; found by users of bolt-js. Counted here over the blocks as JSON
LEGACY_ATTACHMENT_KEYS = {"text", "title", "pretext", "fields", "actions", "callback_id", "footer", "author_name"}

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_TEXT_STYLES = {"bold", "italic", "strike", "code"}

Check = Callable[[dict[str, Any]], Iterator[str]]


def problems(blocks: Any, where: str = "blocks", *, view: bool = False) -> list[str]:
    """Return what Slack would complain of, each with its place; an empty list means accepted."""
    if not isinstance(blocks, list):
        return [f"{where}: must be a list"]
    known, most = (_VIEW_BLOCKS, MAX_VIEW_BLOCKS) if view else (_BLOCKS, MAX_BLOCKS)
    found = [f"{where}: {len(blocks)} blocks, at most {most}"] if len(blocks) > most else []
    for number, block in enumerate(blocks):
        place = f"{where}[{number}]"
        check = known.get(block.get("type", "")) if isinstance(block, dict) else None
        if check is None:
            found.append(f"{place}: unknown block {block.get('type') if isinstance(block, dict) else block!r}")
            continue
        found += [f"{place}: {problem}" for problem in (*_block_id(block), *check(block))]
    ids = [block["block_id"] for block in blocks if isinstance(block, dict) and "block_id" in block]
    if len(ids) != len(set(ids)):
        found.append(f"{where}: a block_id is there twice")
    return found


def message_problems(blocks: list[Any], attachments: list[Any]) -> list[str]:
    """Return what is wrong with a message as a whole: duplicate action ids, too long tables, too many charts."""
    every = [*blocks, *(block for attachment in attachments for block in attachment.get("blocks", []))]
    found = _twice(every)
    if sum(tables.characters(block) for block in every if block["type"] == "table") > tables.MAX_TABLE_CHARACTERS:
        found.append(f"tables of more than {tables.MAX_TABLE_CHARACTERS} characters")
    if sum(block["type"] == "data_visualization" for block in every) > tables.MAX_CHARTS:
        found.append(f"more than {tables.MAX_CHARTS} charts")
    return found


def view_problems(view: Any) -> list[str]:
    """Return what Slack would complain of in a modal or a Home tab."""
    if not isinstance(view, dict) or view.get("type") not in {"modal", "home"}:
        return ["view: must be a modal or a home tab"]
    more = {"private_metadata", "callback_id", "external_id"}
    needed = {"type", "blocks"}
    if view["type"] == "modal":
        needed, more = needed | {"title"}, more | {"submit", "close", "notify_on_close", "clear_on_close"}
    found = _keys(view, needed, more, "view")
    for name in ("title", "submit", "close"):
        if name in view:
            found += [f"view.{name}: {problem}" for problem in elements.plain(view[name], 24)]
    if len(view.get("private_metadata", "")) > 3_000:
        found.append("view: private_metadata of more than 3000 characters")
    if len(view.get("callback_id", "")) > 255:
        found.append("view: callback_id of more than 255 characters")
    blocks = view.get("blocks", [])
    found += problems(blocks, "view.blocks", view=True) + _twice(blocks)
    if any(block.get("type") == "input" for block in blocks) and view["type"] == "modal" and "submit" not in view:
        found.append("view: inputs need a submit button")
    if len(json.dumps(view)) > 250_000:
        found.append("view: too large")
    return found


def _twice(blocks: list[Any]) -> list[str]:
    ids = list(elements.action_ids(blocks))
    return [f"action_id {name} is there twice" for name in sorted({name for name in ids if ids.count(name) > 1})]


def attachment_problems(attachments: Any) -> list[str]:
    """Return what Slack would complain of in attachments that hold nothing but blocks and a colour."""
    if not isinstance(attachments, list) or len(attachments) > 100:
        return ["attachments: must be a list of at most 100"]
    found = []
    for number, attachment in enumerate(attachments):
        place = f"attachments[{number}]"
        if "blocks" in attachment and LEGACY_ATTACHMENT_KEYS & attachment.keys():
            found.append(f"{place}: blocks and legacy fields exclude each other")
        found += _keys(attachment, {"blocks"}, {"color", "fallback"}, place)
        if not _COLOUR.fullmatch(attachment.get("color", "#000000")):
            found.append(f"{place}: color must be #rrggbb")
        found += problems(attachment.get("blocks", []), f"{place}.blocks")
    return found


def size(blocks: list[Any], attachments: list[Any]) -> int:
    """Characters over all blocks, those in attachments too."""
    wrapped = [block for attachment in attachments for block in attachment.get("blocks", [])]
    return len(json.dumps([*blocks, *wrapped], ensure_ascii=False))


def live(text: str) -> list[str]:
    """Return what Slack would make live in mrkdwn: mentions, channel links, broadcasts, addresses. Dates do no harm."""
    dated = re.sub(r"<!date\^\d+\^[^|<>]*\|[^|<>]*>", "", text)
    return re.findall(r"<[!@#][^>]*>?|<(?:https?|mailto)[^>]*>", dated)


def parsed_texts(blocks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield every text in which Slack looks for markup: all mrkdwn objects, however deep."""
    stack: list[Any] = list(blocks)
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if item.get("type") == "mrkdwn":
                yield item["text"]
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _block_id(block: dict[str, Any]) -> Iterator[str]:
    if not 1 <= len(block.get("block_id", "x")) <= 255:
        yield "block_id must have 1 to 255 characters"


def _header(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, {"type", "text"}, {"block_id"})
    yield from _text(block.get("text"), 150, {"plain_text"})


def _section(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, {"type"}, {"text", "fields", "accessory", "block_id", "expand"})
    if "text" not in block and "fields" not in block:
        yield "needs text or fields"
    if "text" in block:
        yield from _text(block["text"], 3_000, {"plain_text", "mrkdwn"})
    if len(block.get("fields", [])) > 10:
        yield "at most 10 fields"
    for field in block.get("fields", []):
        yield from _text(field, 2_000, {"plain_text", "mrkdwn"})
    if "accessory" in block:
        yield from elements.accessory(block["accessory"])


def _divider(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, {"type"}, {"block_id"})


def _context(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, {"type", "elements"}, {"block_id"})
    if not 1 <= len(block.get("elements", [])) <= 10:
        yield "1 to 10 elements"
    for element in block.get("elements", []):
        yield from _text(element, 3_000, {"plain_text", "mrkdwn"})


def _rich_text(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, {"type", "elements"}, {"block_id"})
    if not block.get("elements"):
        yield "needs elements"
    for element in block.get("elements", []):
        yield from _rich_element(element)


def _rich_element(element: dict[str, Any]) -> Iterator[str]:
    kind = element.get("type")
    if kind == "rich_text_list":
        yield from _keys(element, {"type", "style", "elements"}, {"indent", "offset", "border"})
        if element.get("style") not in {"ordered", "bullet"}:
            yield "list style must be ordered or bullet"
        for item in element.get("elements", []):
            if item.get("type") != "rich_text_section":
                yield "lists hold sections"
            yield from _rich_element(item)
    elif kind in {"rich_text_section", "rich_text_preformatted", "rich_text_quote"}:
        extra = {"border"} if kind != "rich_text_section" else set()
        yield from _keys(element, {"type", "elements"}, extra)
        for part in element.get("elements", []):
            yield from _rich_part(part)
    else:
        yield f"unknown rich text element {kind}"
    if not element.get("elements"):
        yield f"{kind} is empty"


def _rich_part(part: dict[str, Any]) -> Iterator[str]:
    if part.get("type") == "link":
        yield from _keys(part, {"type", "url"}, {"text", "style", "unsafe"})
    elif part.get("type") == "user":
        yield from _keys(part, {"type", "user_id"}, {"style"})
    elif part.get("type") != "text":
        yield f"rich text part {part.get('type')}: only text, links and persons are expected from this app"
    else:
        yield from _keys(part, {"type", "text"}, {"style"})
        if not isinstance(part.get("text"), str) or not part["text"]:
            yield "text is empty"
    style = part.get("style", {})
    if not style.keys() <= _TEXT_STYLES or not all(isinstance(on, bool) for on in style.values()):
        yield f"style {style}"


def _image(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, {"type", "alt_text"}, {"image_url", "slack_file", "title", "block_id"})
    if ("image_url" in block) == ("slack_file" in block):
        yield "needs image_url or slack_file, not both"
    if len(block.get("alt_text", "")) > 2_000:
        yield "alt_text of more than 2000 characters"
    file = block.get("slack_file", {})
    if "id" in file and not re.fullmatch(r"F[A-Z0-9]{8,}", file["id"]):
        yield "slack_file needs the id of a file"


def _markdown(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, {"type", "text"}, {"block_id"})
    if not 1 <= len(block.get("text", "")) <= 12_000:
        yield "markdown must have 1 to 12000 characters"


_BLOCKS: dict[str, Check] = {
    "header": _header,
    "section": _section,
    "divider": _divider,
    "context": _context,
    "rich_text": _rich_text,
    "image": _image,
    "markdown": _markdown,
    "actions": elements.actions,
    "context_actions": elements.context_actions,
    "table": tables.table,
    "data_table": tables.data_table,
    "data_visualization": tables.data_visualization,
}
_VIEW_BLOCKS: dict[str, Check] = {
    **{kind: check for kind, check in _BLOCKS.items() if kind not in {"table", "data_table", "data_visualization"}},
    "input": elements.input_block,
}
