"""`firstfault catalogue export`: alert rules and search patterns for chosen entries, for programs that run by themselves.

Loki searches the logs that it stores. Prometheus sees numbers only: rules rest on what exporters already measure where
an entry has such a metric, and else on counters that mtail keeps, whose program is the format `mtail`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import yaml

from bot.cli import output
from bot.cli.catalogue import by_layer
from bot.cli.explain import RESTART
from bot.cli.lookup import layers
from bot.cli.plain_regex import PlainRegex, any_of
from bot.terminal import one_line
from knowledge.catalogue import load_catalogue
from knowledge.signature import Signature, SignatureRole

WINDOW = "5m"
SELECTOR = '{job=~".+"}'
DONE, BAD_USAGE = 0, 2  # exit status


class Format(StrEnum):
    """For whom."""

    PROMETHEUS = "prometheus"
    MTAIL = "mtail"
    LOKI = "loki"
    GREP = "grep"


NEEDS = {
    Format.PROMETHEUS: (
        "Rules for Prometheus (rule_files). Those on firstfault_log_..._total need mtail beside the logs, with the "
        "program from `firstfault catalogue export --format mtail` for the same entries; others need the exporter in "
        "their label `needs`."
    ),
    Format.MTAIL: (
        "A program for mtail: mtail --progs DIR --logs '/path/to/logs/*'. It counts lines for the rules from "
        "`firstfault catalogue export --format prometheus`."
    ),
    Format.LOKI: (
        "Rules for Loki's ruler, which must be on and have an Alertmanager. Set the stream selector to your logs with "
        "--selector, and leave Firstfault's and Loki's own logs out of it: they quote what they found."
    ),
    Format.GREP: "Patterns, one a line and entry: keep them in a file and run GNU grep -rnEf FILE LOGS.",
}


class Unknown(Exception):  # noqa: N818 - named for what it tells
    """An id or layer that does not exist; the message names it."""


def run(ids: Sequence[str], form: Format, *, layer: str | None, everything: bool, selector: str) -> int:
    """Print the rules, tell on standard error what they need, and return the exit status."""
    try:
        entries = chosen(ids, layer=layer, everything=everything)
    except Unknown as error:
        print(f"firstfault: {one_line(str(error))}", file=sys.stderr)
        return BAD_USAGE
    output.write(export(entries, form, selector=selector))
    if form is Format.GREP:  # its patterns have no room for a comment
        print(NEEDS[form], file=sys.stderr)
    return DONE


def chosen(ids: Sequence[str], *, layer: str | None, everything: bool) -> list[Signature]:
    """The entries named by `ids`, and of a layer or of all those that can be where a failure began. Raises Unknown."""
    catalogue = load_catalogue()
    if unknown := [name for name in ids if name not in catalogue.entries]:
        raise Unknown(f"no entry {', '.join(unknown)}; `firstfault catalogue search WORDS` finds ids")
    if layer is not None and layer not in set(layers().values()):
        raise Unknown(f"no layer {layer}; there are {', '.join(sorted(set(layers().values())))}")
    if not (ids or layer or everything):
        raise Unknown("name entries by id, or use --layer LAYER or --all")
    wanted = [catalogue[name] for name in dict.fromkeys(ids)]
    wanted += [
        entry
        for entry in catalogue
        if entry.role is SignatureRole.ROOT
        and entry.id not in ids
        and (everything or (layer is not None and layers()[entry.id] == layer))
    ]
    return wanted


def export(entries: Sequence[Signature], form: Format, *, selector: str = SELECTOR) -> str:
    """Return the file for `form`, ending in a newline. `selector` is Loki's, in braces."""
    write: Mapping[Format, Callable[[], str]] = {
        Format.PROMETHEUS: lambda: _rules(entries, form, _prometheus),
        Format.MTAIL: lambda: "\n".join([*_comment(NEEDS[form]), "", *_mtail(entries)]) + "\n",
        Format.LOKI: lambda: _rules(entries, form, lambda entry: _loki(entry, selector)),
        Format.GREP: lambda: "".join(f"{any_of(entry.regex).text}\n" for entry in entries),
    }
    return write[form]()


def counter(entry: Signature) -> str:
    """The name of mtail's counter for an entry. One a name, since a counter with labels would begin with its first
    line, and `increase` would not see that."""
    return f"firstfault_log_{entry.id.replace('-', '_')}_total"


def _comment(text: str) -> Iterator[str]:
    words, line = text.split(), "#"
    for word in words:
        if len(line) + len(word) > 110:
            yield line
            line = "#"
        line += f" {word}"
    yield line


def _rules(entries: Sequence[Signature], form: Format, expression: Callable[[Signature], tuple[str, str]]) -> str:
    groups = [
        {"name": f"firstfault-{layer}", "rules": [_rule(entry, *expression(entry)) for entry in members]}
        for layer, members in by_layer(entries).items()
    ]
    document = yaml.safe_dump({"groups": groups}, sort_keys=False, allow_unicode=True, width=110)
    return "\n".join(_comment(NEEDS[form])) + "\n" + document


def _rule(entry: Signature, expression: str, needs: str) -> dict[str, Any]:
    annotations = {
        "summary": _plain(entry.title),
        "description": _plain(f"{entry.mechanism} {RESTART[entry.restart]}"),
        "action": _plain(
            " ".join(f"{number}. {step}" for number, step in enumerate(entry.fix, 1)).replace("{host}", "HOST")
        ),
    }
    if entry.watch:
        annotations["watch"] = _plain(entry.watch)
    return {
        "alert": "Firstfault" + "".join(part.capitalize() for part in entry.id.split("-")),
        "expr": expression,
        "labels": {
            "severity": "critical" if entry.node_suspect else "warning",
            "entry": entry.id,
            "cause": entry.cause,
            "needs": needs,
        },
        "annotations": annotations,
    }


def _plain(text: str) -> str:
    """Text that Alertmanager's templates leave alone."""
    return " ".join(text.replace("{{", "{ {").replace("}}", "} }").split())


def _prometheus(entry: Signature) -> tuple[str, str]:
    if entry.metric:
        return entry.metric.promql, entry.metric.needs
    return f"increase({counter(entry)}[{WINDOW}]) > 0", "mtail"


def _mtail(entries: Sequence[Signature]) -> Iterator[str]:
    for entry in entries:
        if entry.metric:
            continue
        regex = any_of(entry.regex)
        yield from _approximate(entry, regex)
        yield f"counter {counter(entry)}"
        yield f"/{regex.text.replace('/', chr(92) + '/')}/ {{"
        yield f"  {counter(entry)}++"
        yield "}"


def _approximate(entry: Signature, regex: PlainRegex) -> Iterator[str]:
    if not regex.exact:
        yield f"# {entry.id}: matches somewhat more than the entry does, since RE2 cannot look around"


def _loki(entry: Signature, selector: str) -> tuple[str, str]:
    literals = "|".join(_quoted(literal) for literal in entry.literals)
    query = f"{selector} |~ {json.dumps(literals)} |~ {json.dumps(any_of(entry.regex).text)}"
    return f"sum by (host, instance, node, pod) (count_over_time({query} [{WINDOW}])) > 0", "loki"


def _quoted(literal: str) -> str:
    return "".join(f"\\{character}" if character in r"\.[]()*+?{}|^$" else character for character in literal)
