"""`firstfault catalogue`: what there is, by layer or by words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bot.cli import output
from bot.cli.lookup import layers
from bot.cli.words import Index
from bot.slack.escape import clean
from bot.terminal import Layout, one_line
from knowledge.catalogue import load_catalogue
from knowledge.signature import Signature, SignatureRole

MAX_RESULTS = 15

FOUND, NOTHING = 0, 1  # exit status


def list_entries(layer: str | None) -> int:
    """Print all layers with their counts, or with `layer` its entries; return the exit status."""
    entries = by_layer(load_catalogue())
    page = _Page.on(output.width(), colour=output.coloured())
    if layer is None:
        output.write("\n".join(page.layers(entries)) + "\n")
    elif layer in entries:
        output.write("\n".join(page.entries(entries[layer])) + "\n")
    else:
        output.write(f"There is no layer {one_line(layer)}. There are: {', '.join(entries)}.\n")
        return NOTHING
    return FOUND


def search(words: Sequence[str]) -> int:
    """Print the entries that hold `words`, the best first; return the exit status."""
    results = Index(load_catalogue(), layers()).search(" ".join(words))
    page = _Page.on(output.width(), colour=output.coloured())
    if not results:
        output.write(f"No entry holds {one_line(clean(' '.join(words)))[:200]}.\n")
        return NOTHING
    best = [result.entry for result in results if result.matched == results[0].matched]
    lines = [*page.entries(best[:MAX_RESULTS])]
    if len(best) > MAX_RESULTS:
        lines.append(page.style.faint(f"and {len(best) - MAX_RESULTS} more; add a word to narrow it"))
    output.write("\n".join(lines) + "\n")
    return FOUND


def by_layer(entries: Iterable[Signature]) -> dict[str, list[Signature]]:
    """Entries in the order of their layers' names and ids."""
    grouped: defaultdict[str, list[Signature]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: entry.id):
        grouped[layers()[entry.id]].append(entry)
    return dict(sorted(grouped.items()))


@dataclass(frozen=True, slots=True)
class _Page(Layout):
    def layers(self, entries: dict[str, list[Signature]]) -> Iterator[str]:
        total = sum(map(len, entries.values()))
        yield self.style.strong(f"{total} entries in {len(entries)} layers")
        for layer, members in entries.items():
            causes = sum(entry.role is SignatureRole.ROOT for entry in members)
            yield f"  {layer:<14} {len(members):>4}  " + self.style.faint(f"{causes} can be where a failure began")
        yield ""
        yield from map(self.style.faint, self.wrapped("firstfault catalogue list LAYER shows one layer,", 0))
        yield from map(self.style.faint, self.wrapped("firstfault explain ID one entry.", 0))

    def entries(self, entries: Iterable[Signature]) -> Iterator[str]:
        for entry in entries:
            yield self.style.command(entry.id) + self.style.faint(f"  {entry.role.value}")
            yield from self.wrapped(one_line(entry.title), 2)
