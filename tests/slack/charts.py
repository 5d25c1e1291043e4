"""Draws a chart of Block Kit for pictures: bars side by side, one colour a series."""

from __future__ import annotations

import html
from typing import Any

WIDTH, HEIGHT, FOOT = 640, 130, 20
_COLOURS = ("#1264a3", "#b9d3e6", "#2bac76", "#e8912d")


def bars(block: dict[str, Any]) -> str:
    """Return a `data_visualization` block of bars as SVG."""
    chart = block["chart"]
    series, categories = chart["series"], chart["axis_config"]["categories"]
    highest = max((point["value"] for each in series for point in each["data"]), default=0) or 1
    slot = WIDTH / len(categories)
    width = min(26.0, slot / (len(series) + 1))
    drawn = []
    for number, category in enumerate(categories):
        left = number * slot + (slot - width * len(series)) / 2
        for which, each in enumerate(series):
            value = each["data"][number]["value"]
            height = value / highest * (HEIGHT - 16)
            place = f'x="{left + which * width:.1f}" width="{width - 2:.1f}"'
            drawn.append(f'<rect {place} y="{HEIGHT - height:.1f}" height="{height:.1f}" fill="{_COLOURS[which]}"/>')
            if value:
                middle = left + which * width + width / 2 - 1
                drawn.append(f'<text x="{middle:.1f}" y="{HEIGHT - height - 3:.1f}">{value}</text>')
        drawn.append(f'<text x="{number * slot + slot / 2:.1f}" y="{HEIGHT + 15}">{html.escape(category)}</text>')
    legend = " ".join(
        f'<span style="color:{_COLOURS[which]}">■</span> {html.escape(each["name"])}'
        for which, each in enumerate(series)
    )
    style = 'style="font-size:11px;fill:#616061;text-anchor:middle"'
    svg = f'<svg width="{WIDTH}" height="{HEIGHT + FOOT}" {style}>{"".join(drawn)}</svg>'
    return f"<div class=file><b>{html.escape(block['title'])}</b><br>{svg}<br>{legend}</div>"
