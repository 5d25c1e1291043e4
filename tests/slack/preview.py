"""Shows messages, threads and modals as a browser would draw them in Slack's look.

`python -m tests.slack.preview FOLDER [CHROMIUM]` writes one HTML page for each scene and, given a browser, a picture.
The look is an imitation for judging layout and length, not a promise of what every client draws.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bot.slack.contract import SlackFile, SlackMessage
from bot.slack.poster import wire
from tests.digest.scenes import digest
from tests.slack import charts, scenes

PEOPLE = {"U0ALICE": "Alice Example", "U0BOB": "Bob Example", "U0CAROL": "Carol Example"}
WIDTH = 820

_STYLE = """
body { font: 15px/22px Lato, "Liberation Sans", Helvetica, Arial, sans-serif; color: #1d1c1d; background: #fff;
  margin: 0; }
.message { display: flex; gap: 8px; padding: 8px 20px 10px; max-width: 780px; }
.avatar { flex: 0 0 36px; height: 36px; border-radius: 6px; background: #3f0e40; color: #fff; text-align: center;
  line-height: 36px; font-weight: 900; font-size: 13px; }
.face { background: #2f6f8f; }
.body { min-width: 0; flex: 1; }
.name { font-weight: 900; } .app { font-size: 10px; background: #ddd; border-radius: 2px; padding: 1px 3px; }
.header { font-size: 18px; line-height: 26px; font-weight: 900; margin: 4px 0; }
.context { font-size: 13px; line-height: 18px; color: #616061; margin: 4px 0; white-space: pre-line; }
.bar { border-left: 4px solid; border-radius: 4px; padding-left: 12px; margin-top: 6px; }
.block { margin: 6px 0; white-space: pre-line; }
.fields { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 16px; }
pre { font: 12px/17px Menlo, "DejaVu Sans Mono", Consolas, monospace; background: #f8f8f8; border: 1px solid #ddd;
  border-radius: 4px; padding: 8px; margin: 4px 0; white-space: pre-wrap; word-break: break-word; }
code { font: 12px/16px Menlo, "DejaVu Sans Mono", Consolas, monospace; color: #c01343; background: #f8f8f8;
  border: 1px solid #ddd; border-radius: 3px; padding: 1px 3px; }
ol, ul { margin: 0; padding-left: 26px; } a { color: #1264a3; text-decoration: none; }
.person { background: #e8f5fa; color: #1264a3; border-radius: 3px; padding: 0 2px; }
table { border-collapse: collapse; margin: 6px 0; font-size: 13px; line-height: 18px; }
td { border: 1px solid #ddd; padding: 4px 8px; vertical-align: top; }
td:last-child { overflow-wrap: anywhere; } tr:first-child td { font-weight: 700; }
.actions { display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0; }
.button { border: 1px solid #bbb; border-radius: 4px; padding: 3px 12px; font-weight: 700; font-size: 13px; }
.primary { background: #007a5a; border-color: #007a5a; color: #fff; } .danger { color: #e01e5a; }
.select { border: 1px solid #bbb; border-radius: 4px; padding: 3px 10px; font-size: 13px; color: #616061; }
.chosen { color: #1d1c1d; }
.thread { margin-left: 44px; border-left: 1px solid #ddd; }
.file { border: 1px solid #ddd; border-radius: 8px; padding: 8px 12px; margin: 4px 0; font-size: 13px; }
.modal { width: 520px; margin: 16px; border: 1px solid #ccc; border-radius: 8px; padding: 20px 28px;
  box-shadow: 0 8px 24px #0002; }
.title { font-size: 22px; font-weight: 900; margin-bottom: 12px; }
.label { font-weight: 700; margin-top: 14px; } .label span { font-weight: 400; color: #616061; }
.input { border: 1px solid #999; border-radius: 4px; padding: 7px 10px; color: #616061; margin-top: 4px; }
.tall { min-height: 66px; } .hint { font-size: 13px; color: #616061; margin-top: 2px; }
.foot { display: flex; gap: 10px; justify-content: flex-end; margin-top: 20px; }
"""


def page(parts: Iterable[str]) -> str:
    """Return a page with the parts one below the other."""
    return f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>" + "".join(parts)


def message(shown: SlackMessage) -> str:
    """Return a message of the app."""
    content = wire(shown)
    above = "".join(map(_block, content["blocks"]))
    bars = [
        f'<div class=bar style="border-color:{bar["color"]}">{"".join(map(_block, bar["blocks"]))}</div>'
        for bar in content["attachments"]
    ]
    return _posted(above + "".join(bars))


def thread(replies: Iterable[SlackMessage | SlackFile | str]) -> str:
    """Return the replies below a message; what is drawn already is taken as it is."""
    return f"<div class=thread>{''.join(map(_reply, replies))}</div>"


def person(name: str, said: str) -> str:
    """Return what a person wrote."""
    face = f'<div class="avatar face">{_escaped(name[:1])}</div>'
    return f"<div class=message>{face}<div class=body><span class=name>{_escaped(name)}</span><br>{_escaped(said)}</div></div>"


def modal(view: dict[str, Any]) -> str:
    """Return a modal."""
    fields = "".join(map(_block, view["blocks"]))
    buttons = f"<span class=button>{_escaped(view.get('close', {}).get('text', 'Cancel'))}</span>"
    buttons += f'<span class="button primary">{_escaped(view["submit"]["text"])}</span>'
    title = _escaped(view["title"]["text"])
    return f"<div class=modal><div class=title>{title}</div>{fields}<div class=foot>{buttons}</div></div>"


def _reply(reply: SlackMessage | SlackFile | str) -> str:
    if isinstance(reply, str):
        return reply
    return message(reply) if isinstance(reply, SlackMessage) else _posted(_file(reply))


def _posted(inner: str) -> str:
    name = "<span class=name>Firstfault</span> <span class=app>APP</span>"
    return f"<div class=message><div class=avatar>1st</div><div class=body>{name} {inner}</div></div>"


def _file(file: SlackFile) -> str:
    head = _escaped("\n".join(file.text.split("\n")[:6]))
    return f"<div class=file><b>{_escaped(file.title)}</b><br>{_escaped(file.name)}<pre>{head}</pre></div>"


def _block(block: dict[str, Any]) -> str:
    kind = block["type"]
    if kind == "header":
        return f"<div class=header>{_escaped(block['text']['text'])}</div>"
    if kind == "context":
        return f"<div class=context>{' '.join(_text(element) for element in block['elements'])}</div>"
    if kind == "section":
        fields = "".join(f"<div>{_text(field)}</div>" for field in block.get("fields", []))
        beside = f"<div class=fields>{fields}</div>" if fields else ""
        return f"<div class=block>{_text(block['text']) if 'text' in block else ''}{beside}</div>"
    if kind == "divider":
        return "<hr>"
    if kind == "table":
        return f"<table>{''.join(_row(row, block.get('column_settings', [])) for row in block['rows'])}</table>"
    if kind == "data_visualization":
        return charts.bars(block)
    if kind == "actions":
        return f"<div class=actions>{''.join(map(_control, block['elements']))}</div>"
    if kind == "input":
        return _input(block)
    return f"<div class=block>{''.join(map(_element, block['elements']))}</div>"


def _row(row: list[dict[str, Any]], settings: list[dict[str, Any]]) -> str:
    aligned = [setting.get("align", "left") for setting in settings] + ["left"] * len(row)
    cells = [
        f'<td style="text-align:{align}">{_escaped(str(cell.get("text", cell.get("value", ""))))}</td>'
        for cell, align in zip(row, aligned, strict=False)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _control(element: dict[str, Any]) -> str:
    if element["type"] == "button":
        return f'<span class="button {element.get("style", "")}">{_escaped(element["text"]["text"])}</span>'
    chosen = element.get("initial_user") or (element.get("initial_option") or {}).get("text", {}).get("text")
    text = PEOPLE.get(chosen or "", chosen) or element.get("placeholder", {}).get("text", "Choose")
    return f'<span class="select {"chosen" if chosen else ""}">{_escaped(text)} ▾</span>'


def _input(block: dict[str, Any]) -> str:
    element = block["element"]
    text = element.get("initial_value") or element.get("placeholder", {}).get("text", "")
    more = " ▾" if "select" in element["type"] else ""
    optional = " <span>(optional)</span>" if block.get("optional") else ""
    hint = f"<div class=hint>{_escaped(block['hint']['text'])}</div>" if "hint" in block else ""
    tall = " tall" if element.get("multiline") else ""
    label = f"<div class=label>{_escaped(block['label']['text'])}{optional}</div>"
    return f'{label}<div class="input{tall}">{_escaped(text)}{more}</div>{hint}'


def _element(element: dict[str, Any]) -> str:
    inner = "".join(_part(part) for part in element["elements"])
    if element["type"] == "rich_text_list":
        tag = "ol" if element["style"] == "ordered" else "ul"
        return f"<{tag}>{''.join(f'<li>{_element(item)}</li>' for item in element['elements'])}</{tag}>"
    return f"<pre>{inner}</pre>" if element["type"] == "rich_text_preformatted" else f"<div>{inner}</div>"


def _part(part: dict[str, Any]) -> str:
    if part["type"] == "rich_text_section":
        return ""
    if part["type"] == "user":
        return _person(part["user_id"])
    if part["type"] == "link":
        return f'<a href="{_escaped(part["url"])}">{_escaped(part.get("text", part["url"]))}</a>'
    text, style = _escaped(part["text"]), part.get("style", {})
    if style.get("code"):
        return f"<code>{text}</code>"
    return f"<b>{text}</b>" if style.get("bold") else text


def _text(element: dict[str, Any]) -> str:
    if element["type"] != "mrkdwn":
        return _escaped(element["text"])
    text = re.sub(r"<(https?://[^|>]+)\|([^>]*)>", r'<a href="\1">\2</a>', element["text"])
    text = re.sub(r"<!date\^[^|>]*\|([^>]*)>", r"\1", text)
    text = re.sub(r"<@([UW][A-Z0-9]+)>", lambda found: _person(found[1]), text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"(?<!\w)\*([^*\n]+)\*(?!\w)", r"<b>\1</b>", text)


def _person(user: str) -> str:
    return f"<span class=person>@{_escaped(PEOPLE.get(user, user))}</span>"


def _escaped(text: str) -> str:
    return html.escape(text)


def draw(folder: Path, browser: str | None) -> None:
    """Write all scenes into `folder`, and pictures of them where there is a browser."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, scene in {**scenes.ALL, "digest": digest}.items():
        parts = [
            thread(part) if isinstance(part, list) else message(part) if isinstance(part, SlackMessage) else modal(part)
            for part in scene()
        ]
        written = folder / f"{name}.html"
        written.write_text(page(parts), encoding="utf-8")
        if browser:
            photograph(browser, written)


def photograph(browser: str, written: Path, width: int = WIDTH) -> None:
    """Let Chromium draw a page into a PNG beside it, `width` pixels wide and as high as its content."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
    measure = written.with_suffix(".measure.html")
    script = (
        "<script>document.title=document.documentElement.scrollHeight;document.body.innerHTML=document.title</script>"
    )
    measure.write_text(written.read_text(encoding="utf-8") + script, encoding="utf-8")
    size = f"--window-size={width},200"
    dom = subprocess.run(
        [browser, *flags, size, "--dump-dom", str(measure)], capture_output=True, text=True, check=True
    )
    measure.unlink()
    found = re.search(r"<body>(\d+)</body>", dom.stdout)
    height = int(found[1]) + 8 if found else 1_200
    picture = f"--screenshot={written.with_suffix('.png')}"
    subprocess.run(
        [browser, *flags, f"--window-size={width},{height}", picture, str(written)], capture_output=True, check=True
    )


if __name__ == "__main__":
    draw(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
