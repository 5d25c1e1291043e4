"""Shows messages as a browser would draw them in Slack's look: `python -m tests.slack.preview FILE.html`.

The look is an imitation for judging layout and length, not a promise of what every client draws.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from bot.slack.contract import SlackMessage
from bot.slack.message import HEADLINE_BLOCKS, render
from tests.slack import samples

_STYLE = """
body { font: 15px/22px Lato, Helvetica, Arial, sans-serif; color: #1d1c1d; background: #fff; margin: 0; }
.message { display: flex; gap: 8px; padding: 8px 20px 10px; max-width: 760px; border-bottom: 1px solid #eee; }
.avatar { flex: 0 0 36px; height: 36px; border-radius: 6px; background: #3f0e40; color: #fff; text-align: center;
  line-height: 36px; }
.name { font-weight: 900; } .app { font-size: 10px; background: #ddd; border-radius: 2px; padding: 1px 3px; }
.header { font-size: 18px; font-weight: 900; margin: 4px 0; }
.context { font-size: 13px; line-height: 18px; color: #616061; margin: 4px 0; }
.bar { border-left: 4px solid; border-radius: 4px; padding-left: 12px; margin-top: 6px; }
.block { margin: 6px 0; }
pre { font: 12px/17px Menlo, Consolas, monospace; background: #f8f8f8; border: 1px solid #ddd; border-radius: 4px;
  padding: 8px; margin: 4px 0; white-space: pre-wrap; word-break: break-word; }
code { font: 12px/16px Menlo, Consolas, monospace; color: #c01343; background: #f8f8f8; border: 1px solid #ddd;
  border-radius: 3px; padding: 1px 3px; }
ol, ul { margin: 0; padding-left: 26px; } a { color: #1264a3; text-decoration: none; }
"""


def as_html(messages: list[SlackMessage]) -> str:
    """Return a page with the messages one below the other."""
    return f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>" + "".join(_message(one) for one in messages)


def _message(message: SlackMessage) -> str:
    above = "".join(_block(block) for block in message.blocks[:HEADLINE_BLOCKS])
    beside = "".join(_block(block) for block in message.blocks[HEADLINE_BLOCKS:])
    head = "<div class=avatar>1st</div><div><span class=name>Firstfault</span> <span class=app>APP</span>"
    bar = f'<div class=bar style="border-color:{message.colour}">{beside}</div>'
    return f"<div class=message>{head} {above}{bar}</div></div>"


def _block(block: dict[str, Any]) -> str:
    if block["type"] == "header":
        return f"<div class=header>{html.escape(block['text']['text'])}</div>"
    if block["type"] == "context":
        return f"<div class=context>{' '.join(_mrkdwn(element['text']) for element in block['elements'])}</div>"
    return f"<div class=block>{''.join(_element(element) for element in block['elements'])}</div>"


def _element(element: dict[str, Any]) -> str:
    inner = "".join(_part(part) for part in element["elements"])
    if element["type"] == "rich_text_list":
        tag = "ol" if element["style"] == "ordered" else "ul"
        return f"<{tag}>{''.join(f'<li>{_element(item)}</li>' for item in element['elements'])}</{tag}>"
    return f"<pre>{inner}</pre>" if element["type"] == "rich_text_preformatted" else f"<div>{inner}</div>"


def _part(part: dict[str, Any]) -> str:
    if part["type"] == "rich_text_section":
        return ""
    text = html.escape(part["text"]).replace("\n", "<br>")
    style = part.get("style", {})
    if style.get("code"):
        return f"<code>{text}</code>"
    return f"<b>{text}</b>" if style.get("bold") else text


def _mrkdwn(text: str) -> str:
    text = re.sub(r"<(https?://[^|>]+)\|([^>]*)>", r'<a href="\1">\2</a>', text)
    return re.sub(r"\*([^*]+)\*", r"<b>\1</b>", text)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(as_html([render(*sample()) for sample in samples.ALL]), encoding="utf-8")
