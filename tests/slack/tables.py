"""What Slack accepts as tables and charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.slack.elements import keys

Item = dict[str, Any]

MAX_ROWS, MAX_CELLS = 100, 20
MAX_TABLE_CHARACTERS = 10_000  # over all tables of a message
MAX_DATA_TABLE_CHARACTERS = 20_000
MAX_CHARTS = 2


def table(block: Item) -> Iterator[str]:
    """Check a `table` block."""
    yield from keys(block, {"type", "rows"}, {"block_id", "column_settings"})
    yield from _rows(block, 1, MAX_ROWS)
    if len(block.get("column_settings", [])) > MAX_CELLS:
        yield f"more than {MAX_CELLS} column settings"
    for setting in block.get("column_settings", []):
        if setting is not None:
            yield from keys(setting, set(), {"align", "is_wrapped"})
            if setting.get("align", "left") not in {"left", "center", "right"}:
                yield "align must be left, center or right"


def data_table(block: Item) -> Iterator[str]:
    """Check a `data_table` block: sortable, its first row holds the names of the columns."""
    yield from keys(block, {"type", "rows"}, {"block_id", "caption", "page_size", "row_header_column_index"})
    yield from _rows(block, 2, 201)
    if characters(block) > MAX_DATA_TABLE_CHARACTERS:
        yield f"more than {MAX_DATA_TABLE_CHARACTERS} characters"


def data_visualization(block: Item) -> Iterator[str]:
    """Check a chart."""
    yield from keys(block, {"type", "title", "chart"}, {"block_id"})
    if not isinstance(block.get("title"), str) or not 1 <= len(block["title"]) <= 50:
        yield "title must have 1 to 50 characters"
    chart = block.get("chart", {})
    if chart.get("type") not in {"line", "bar", "area", "pie"}:
        yield "a chart is a line, bar, area or pie"
    pie = chart.get("type") == "pie"
    parts = chart.get("segments" if pie else "series", [])
    if not 1 <= len(parts) <= 12:
        yield "1 to 12 series or segments"
    yield from keys(chart, {"type", "segments"} if pie else {"type", "series"}, set() if pie else {"axis_config"})
    for part in parts:
        yield from keys(part, {"label", "value"} if pie else {"name", "data"}, set())
        points = [part] if pie else [{"label": part.get("name", "")}, *part.get("data", [])]
        if len(points) > 21:
            yield "more than 20 points"
        if any(not 1 <= len(str(point.get("label", ""))) <= 20 for point in points):
            yield "labels have 1 to 20 characters"


def characters(block: Item) -> int:
    """Characters in all cells of a table."""
    return sum(len(word) for row in block.get("rows", []) for cell in row for word in _words(cell))


def _rows(block: Item, least: int, most: int) -> Iterator[str]:
    rows = block.get("rows", [])
    if not least <= len(rows) <= most:
        yield f"{least} to {most} rows"
    if len({len(row) for row in rows}) > 1:
        yield "rows differ in length"
    for row in rows:
        if not 1 <= len(row) <= MAX_CELLS:
            yield f"1 to {MAX_CELLS} cells a row"
        for cell in row:
            yield from _cell(cell)


def _cell(cell: Item) -> Iterator[str]:
    kind = cell.get("type")
    if kind == "raw_text":
        yield from keys(cell, {"type", "text"}, set())
        if not isinstance(cell.get("text"), str) or not cell["text"]:
            yield "a cell is empty"
    elif kind == "raw_number":
        yield from keys(cell, {"type", "value"}, {"text"})
    elif kind != "rich_text":
        yield f"cell of type {kind}"


def _words(cell: Any) -> Iterator[str]:
    if isinstance(cell, dict):
        for key, value in cell.items():
            if key in {"text", "url"} and isinstance(value, str):
                yield value
            elif key == "value":
                yield str(value)
            else:
                yield from _words(value)
    elif isinstance(cell, list):
        for item in cell:
            yield from _words(item)
