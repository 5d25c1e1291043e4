"""What entries say beyond the verdict: it points at things that exist, and what is to be pasted can be pasted."""

from __future__ import annotations

import configparser
import subprocess
from collections.abc import Mapping

import pytest
import yaml

from knowledge.catalogue import load_catalogue
from knowledge.signature import Signature, Snippet

ENTRIES: Mapping[str, Signature] = dict(load_catalogue().entries)
EACH = pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
WITH_SNIPPET = {entry.id: entry.snippet for entry in ENTRIES.values() if entry.snippet}

REFERENCE = (
    "nccl-cuda-failure",
    "nccl-unhandled-cuda-error",
    "cuda-unknown-error",
    "c10d-watchdog-timeout",
    "nccl-connect-unroutable",
    "nccl-ib-retry-exceeded",
    "nccl-roce-gid-local",
    "nccl-virtual-interface",
)
"""Told in full, as the measure for all others."""

COMMON = 60
"""So many entries, those that people meet most, say how to be sure and what they are easily taken for."""


@EACH
def test_siblings_and_relatives_are_other_entries_that_exist(entry: Signature) -> None:
    named = [sibling.id for sibling in entry.siblings]
    assert set(named) | set(entry.related) <= ENTRIES.keys()
    assert len(named) == len(set(named))
    assert len(entry.related) == len(set(entry.related))
    assert entry.id not in {*named, *entry.related}
    assert not set(named) & set(entry.related), "a sibling is related anyway"


@pytest.mark.parametrize("name", REFERENCE)
def test_the_classic_failures_are_told_in_full(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.confirm
    assert entry.snippet
    assert len(entry.siblings) >= 3
    for told in ("look_at", "is_not", "seen_on_initiator", "seen_on_others", "prevention", "watch", "related"):
        assert getattr(entry, told), told
    assert len(entry.mechanism) > 400


def test_common_entries_say_how_to_be_sure_and_what_they_are_taken_for() -> None:
    deep = [entry for entry in ENTRIES.values() if entry.confirm and entry.siblings and entry.look_at]
    assert len(deep) >= COMMON
    assert sum(bool(entry.prevention) for entry in deep) >= COMMON
    assert sum(bool(entry.watch) for entry in deep) >= COMMON


def _is_shell(script: str) -> None:
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"{checked.stderr}{script}"


@pytest.mark.parametrize("snippet", WITH_SNIPPET.values(), ids=list(WITH_SNIPPET))
def test_snippets_are_code(snippet: Snippet) -> None:
    match snippet.language:
        case "python":
            compile(snippet.code, snippet.stack, "exec")
        case "sh":
            _is_shell(snippet.code)
        case "yaml":
            assert isinstance(yaml.safe_load(snippet.code), dict)
        case "ini":
            parser = configparser.ConfigParser(strict=False)
            parser.read_string(snippet.code)
            assert parser.sections()


def test_commands_are_shell() -> None:
    """All in one script, each in a function of its own: one process instead of a thousand."""
    commands = [
        step.run for entry in ENTRIES.values() for step in [*entry.verify, *([entry.confirm] if entry.confirm else [])]
    ]
    _is_shell("\n".join(f"step_{number}() {{\n{command}\n}}" for number, command in enumerate(commands)))


@EACH
def test_texts_are_one_paragraph_each(entry: Signature) -> None:
    texts = [entry.look_at, entry.is_not, entry.seen_on_initiator, entry.seen_on_others, entry.prevention, entry.watch]
    texts += [sibling.tell for sibling in entry.siblings]
    assert not [text for text in texts if "\n" in text or text != text.strip()]
