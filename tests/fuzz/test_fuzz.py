"""A short walk of the fuzzer, the same every time, and all that longer ones have found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.corpus import FOUND
from tests.fuzz.properties import check_found
from tests.fuzz.targets import fuzzed, hook

EXAMPLES = {"bundles": 20, "single_lines": 150, "redaction": 150, "redaction_of_the_hook": 80}


@pytest.mark.parametrize("target", EXAMPLES)
def test_damaged_and_hostile_input_breaks_nothing(target: str) -> None:
    fuzzed(target, None, EXAMPLES[target])()


@pytest.mark.parametrize("path", sorted(FOUND.iterdir()), ids=lambda path: path.name)
def test_what_was_found_once_stays_mended(path: Path) -> None:
    check_found(path, hook().Redaction("hook-test-not-a-token"))
