"""`python -m bot.cli.catalogue_docs`: docs/catalogue, written from the catalogue's YAML. `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bot.cli import code_pages, markdown, nccl_page
from bot.cli.catalogue import by_layer
from bot.cli.explain import spoken
from bot.cli.lookup import layers
from knowledge.catalogue import load_catalogue
from knowledge.causes import load_causes
from knowledge.diagnosis import Restart, VerifyStep
from knowledge.signature import Signature, SignatureRole

FOLDER = Path(__file__).parents[2] / "docs" / "catalogue"

WRITTEN = (
    "<!-- Written by `python -m bot.cli.catalogue_docs` from knowledge/catalogue. Change the YAML, not this page. -->"
)
WRITTEN_CODES = WRITTEN.replace("knowledge/catalogue", "knowledge/tables")
BY_HAND = {"timeout-that-hides-a-fault.md"}
"""Pages of the folder that people write."""

_RESTART = {
    Restart.SAFE: "restart as it is",
    Restart.AFTER_FIX: "restart after the fix",
    Restart.ELSEWHERE: "restart on other nodes",
    Restart.UNSAFE: "do not restart",
    Restart.UNKNOWN: "restart depends",
}


def pages() -> dict[str, str]:
    """All generated pages: file name → text, ending in a newline."""
    grouped = by_layer(load_catalogue())
    written = {f"{layer}.md": _layer(layer, entries) for layer, entries in grouped.items()}
    written["README.md"] = _index(grouped)
    written["nccl-errors.md"] = f"{WRITTEN}\n\n{nccl_page.page(link)}"
    written["xid.md"] = f"{WRITTEN_CODES}\n\n{code_pages.xid_page(link)}"
    written["exits.md"] = f"{WRITTEN_CODES}\n\n{code_pages.exits_page()}"
    return written


def link(entry_id: str) -> str:
    """A link to an entry, from any page of the folder."""
    return f"[`{entry_id}`]({layers()[entry_id]}.md#{entry_id})"


def _index(grouped: Mapping[str, Sequence[Signature]]) -> str:
    rows = [
        f"| [{layer}]({layer}.md) | {len(entries)} | {sum(entry.role is SignatureRole.ROOT for entry in entries)} |"
        for layer, entries in grouped.items()
    ]
    total = sum(map(len, grouped.values()))
    return "\n".join(
        [
            WRITTEN,
            "",
            "# What Firstfault knows",
            "",
            f"{total} failure messages, by layer. The same stands in the terminal: `firstfault explain ID`.",
            "",
            "| layer | messages | can begin a failure |",
            "| --- | --- | --- |",
            *rows,
            "",
            "- [All NCCL errors side by side](nccl-errors.md): what each says, what it really indicates, where to look.",
            "- [Xid and SXid](xid.md): every number of the NVIDIA driver, which only follow from others, and what to do.",
            "- [Signals, exit codes and job states](exits.md): how a process or a job ended.",
            "- [A timeout that hides a fault](timeout-that-hides-a-fault.md): 511 logs speak of NCCL, one of the cause.",
            "- [How an entry is written](../catalogue-format.md).",
            "",
        ]
    )


def _layer(layer: str, entries: Sequence[Signature]) -> str:
    head = [WRITTEN, "", f"# {layer}", "", "| message | part | cause |", "| --- | --- | --- |"]
    head += [
        f"| [{markdown.cell(entry.title)}](#{entry.id}) | {entry.role.value} | {entry.cause} |" for entry in entries
    ]
    return "\n".join(head) + "\n" + "".join("\n" + "\n\n".join(_entry(entry)) + "\n" for entry in entries)


def _entry(entry: Signature) -> Iterator[str]:
    yield f"## {entry.id}"
    about = [entry.role.value, f"accuses the {entry.scope.value}", f"cause {entry.cause}", _RESTART[entry.restart]]
    about += ["node suspect"] if entry.node_suspect else []
    yield f"**{markdown.text(entry.title)}** · {' · '.join(about)}"
    yield markdown.block(entry.samples.match[0].text)
    yield markdown.text(f"{spoken(entry.summary)} {entry.mechanism}")
    told = [
        ("Look at", entry.look_at),
        ("What it is not", entry.is_not),
        ("Where it began", entry.seen_on_initiator),
        ("On the others", entry.seen_on_others),
        ("What decides", entry.discriminator),
    ]
    listed = "\n".join(f"- **{title}:** {markdown.text(text)}" for title, text in told if text)
    if listed:
        yield listed
    if entry.confirm:
        yield "Confirm:\n\n" + _steps([entry.confirm])
    yield "Fix:\n\n" + "\n".join(f"{number}. {markdown.text(step)}" for number, step in enumerate(entry.fix, 1))
    if entry.snippet:
        yield f"{markdown.text(entry.snippet.stack)}:\n\n{markdown.block(entry.snippet.code, entry.snippet.language)}"
    yield "Verify:\n\n" + _steps(entry.verify)
    if entry.siblings:
        yield "Easily taken for:\n\n" + "\n".join(
            f"- {link(sibling.id)}: {markdown.text(sibling.tell)}" for sibling in entry.siblings
        )
    yield from _afterwards(entry)


def _steps(steps: Sequence[VerifyStep]) -> str:
    return "\n".join(f"- {markdown.code(step.run)}<br>→ {markdown.text(step.expect)}" for step in steps)


def _afterwards(entry: Signature) -> Iterator[str]:
    lines = []
    if entry.explained_by:
        causes = "; ".join(load_causes()[cause].title for cause in sorted(entry.explained_by))
        lines.append(
            f"- **A mere symptom** where one of these is found on the same rank or host: {markdown.text(causes)}"
        )
    if entry.prevention:
        lines.append(f"- **Prevention:** {markdown.text(entry.prevention)}")
    if entry.watch:
        lines.append(f"- **Watch for:** {markdown.text(entry.watch)}")
    if entry.metric:
        lines.append(f"- **Alert:** {markdown.code(entry.metric.promql)} ({markdown.text(entry.metric.needs)})")
    if entry.related:
        lines.append(f"- **Related:** {', '.join(map(link, entry.related))}")
    if entry.references:
        lines.append("- **References:** " + ", ".join(f"<{address}>" for address in entry.references))
    if lines:
        yield "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with `--check` say which are not as they would be written; return the exit status."""
    written = pages()
    stale = [
        name
        for name, content in written.items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text(encoding="utf-8") != content
    ]
    left = [path.name for path in FOLDER.glob("*.md") if path.name not in written and path.name not in BY_HAND]
    if "--check" in arguments:
        for name in sorted(stale + left):
            print(f"docs/catalogue/{name} is not up to date; run python -m bot.cli.catalogue_docs")
        return 1 if stale or left else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(written[name], encoding="utf-8")
    for name in left:
        (FOLDER / name).unlink()
    print(f"{len(stale)} pages written, {len(left)} removed, {len(written) - len(stale)} were up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
