"""The judge that others wrote for Python: a payload is built anew with slackblocks, whose builders refuse what Slack does.

Its own parsing knows few blocks, so the way from JSON to builders is here. What is built must be what was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import slackblocks as kit
from slackblocks.errors import InvalidUsageError
from slackblocks.views import HomeTabView, ModalView

from tests.slack.judges.sent import Payload

Item = dict[str, Any]

UNNAMED = "none was given"
"""The id of blocks that have none: the builders would invent one."""


def problems(payload: Payload) -> list[str]:
    """Return what the builders refuse, or build otherwise."""
    try:
        built = _view(payload.content) if payload.kind == "view" else _message(payload.content)
    except (InvalidUsageError, KeyError, TypeError, ValueError) as error:
        return [f"{type(error).__name__}: {error}"]
    given = {key: value for key, value in payload.content.items() if key != "mrkdwn"}
    return [f"{key} is lost or changed" for key in given if _bare(built.get(key)) != _bare(given[key])]


def _message(content: Item) -> Item:
    bars = [
        kit.Attachment(blocks=[_block(block) for block in bar["blocks"]], color=bar["color"])
        for bar in content.get("attachments", ())
    ]
    blocks = [_block(block) for block in content["blocks"]]
    return kit.Message(
        channel="C0TEST", text=content["text"], blocks=blocks or None, attachments=bars or None
    ).to_dict()


def _view(content: Item) -> Item:
    more = {key: value for key, value in content.items() if key not in ("type", "blocks", "title", "submit", "close")}
    blocks = [_block(block) for block in content["blocks"]]
    if content["type"] == "home":
        return HomeTabView(blocks=blocks, **more).to_dict()
    texts: Item = {key: _text(content[key]) for key in ("title", "submit", "close") if key in content}
    return ModalView(blocks=blocks, **texts, **more).to_dict()


def _block(block: Item) -> kit.Block:
    build = _BLOCKS.get(block["type"])
    if build is None:
        raise ValueError(f"block {block['type']} is not built here")
    return build(block, {"block_id": block.get("block_id", UNNAMED)})


def _table(block: Item, known: Item) -> kit.Block:
    rows: list[list[Any]] = [
        [kit.RawText(cell["text"]) for cell in row if cell["type"] == "raw_text"] for row in block["rows"]
    ]
    settings = [kit.ColumnSettings(**setting) for setting in block.get("column_settings", ())]
    return kit.TableBlock(rows, settings or None, **known)


def _chart(block: Item, known: Item) -> kit.Block:
    chart = block["chart"]
    if chart["type"] != "bar":
        raise ValueError(f"chart {chart['type']} is not built here")
    series = [
        kit.DataSeries(each["name"], [kit.DataPoint(point["label"], point["value"]) for point in each["data"]])
        for each in chart["series"]
    ]
    return kit.DataVisualizationBlock(
        block["title"], kit.BarChart(series, kit.AxisConfig(**chart["axis_config"])), **known
    )


def _section(block: Item, known: Item) -> kit.Block:
    text = _text(block["text"]) if "text" in block else None
    fields: list[Any] = [_text(field) for field in block.get("fields", ())]
    accessory = _element(block["accessory"]) if "accessory" in block else None
    return kit.SectionBlock(text, fields=fields or None, accessory=accessory, **known)


def _input(block: Item, known: Item) -> kit.Block:
    more = {"optional": block.get("optional", False), "hint": _text(block["hint"]) if "hint" in block else None}
    return kit.InputBlock(_text(block["label"]), _element(block["element"]), **more, **known)


_BLOCKS: Mapping[str, Callable[[Item, Item], kit.Block]] = {
    "header": lambda block, known: kit.HeaderBlock(_text(block["text"]), **known),
    "context": lambda block, known: kit.ContextBlock([_text(each) for each in block["elements"]], **known),
    "rich_text": lambda block, known: kit.RichTextBlock([_rich(each) for each in block["elements"]], **known),
    "actions": lambda block, known: kit.ActionsBlock([_element(each) for each in block["elements"]], **known),
    "section": _section,
    "input": _input,
    "table": _table,
    "data_visualization": _chart,
}


def _rich(element: Item) -> Any:
    parts = element["elements"]
    match element["type"]:
        case "rich_text_section":
            return kit.RichTextSection([_part(part) for part in parts])
        case "rich_text_preformatted":
            return kit.RichTextCodeBlock([_part(part) for part in parts])
        case "rich_text_list":
            return kit.RichTextList(element["style"], [_rich(part) for part in parts])
    raise ValueError(f"rich text {element['type']} is not built here")


def _part(part: Item) -> Any:
    style = part.get("style", {})
    match part["type"]:
        case "text":
            return kit.RichText(part["text"], **style)
        case "link":
            return kit.RichTextLink(part["url"], part.get("text"), **style)
        case "user":
            return kit.RichTextUser(part["user_id"], **style)
    raise ValueError(f"rich text part {part['type']} is not built here")


def _element(element: Item) -> Any:
    given = {key: value for key, value in element.items() if key != "type"}
    given |= {key: _text(element[key]) for key in ("text", "placeholder") if key in element}
    if "options" in element:
        given["options"] = [_option(each) for each in element["options"]]
    if "option_groups" in element:
        given["option_groups"] = [
            kit.OptionGroup(_text(group["label"]), [_option(each) for each in group["options"]])
            for group in element["option_groups"]
        ]
    return _ELEMENTS[element["type"]](**given)


_ELEMENTS: Mapping[str, Callable[..., Any]] = {
    "button": kit.Button,
    "users_select": kit.UserSelectMenu,
    "static_select": kit.StaticSelectMenu,
    "plain_text_input": kit.PlainTextInput,
}


def _option(option: Item) -> kit.Option:
    return kit.Option(_text(option["text"]), option["value"])


def _text(text: Item) -> kit.Text:
    if text["type"] == "mrkdwn":
        return kit.Markdown(text["text"])
    return kit.PlainText(text["text"], emoji=text.get("emoji", False))


def _bare(value: Any) -> Any:
    """Without what says no more than its absence: `emoji: false`, `border: 0`, an empty list, no id."""
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items() if inner not in (False, 0, None, [], UNNAMED)}
    return [_bare(inner) for inner in value] or None if isinstance(value, list) else value or None
