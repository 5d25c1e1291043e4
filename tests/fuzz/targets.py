"""What is fuzzed. Each target remembers the input that it was last given."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.cluster.hooks import HOOK
from tests.fuzz.corpus import DATES, NUMBERS, PIECES, cases, lines
from tests.fuzz.mutations import MUTATIONS, SECRET, strange_job
from tests.fuzz.properties import check_bundle, check_line, check_redaction
from tests.knowledge.test_redaction import KEPT, OVER_LINES, PEM, SECRETS

LAST: dict[str, Any] = {}
"""The input that each target was given last: after a failure, the one that fails."""

_SEEDS = st.integers(0, 2**48)


_BUNDLES = (
    st.integers(0, len(cases()) - 1),
    st.lists(st.tuples(st.sampled_from(MUTATIONS), _SEEDS), max_size=6),
    _SEEDS,
)


def bundles(number: int, mutations: list[tuple[Any, int]], own_seed: int) -> None:
    """A damaged case is diagnosed."""
    case = cases()[number]
    files, dice = dict(case.files), random.Random(own_seed)
    for mutate, throws in mutations:
        mutate(random.Random(throws), files)
    files = {name: data for name, data in files.items() if not _is_folder(name, files)}
    job = strange_job(dice, dict(case.job)) if dice.random() < 0.3 else case.job
    LAST["bundles"] = (files, job)
    check_bundle(files, job)


def _is_folder(name: str, files: dict[str, bytes]) -> bool:
    return any(other.startswith(name + "/") for other in files)


_FRAGMENTS = st.one_of(
    st.sampled_from(PIECES),
    st.sampled_from(NUMBERS),
    st.sampled_from(DATES),
    st.text(max_size=6),
    st.builds(
        lambda line, start, size: line[start % (len(line) + 1) :][:size],
        st.deferred(lambda: st.sampled_from(lines())),
        st.integers(0, 400),
        st.integers(1, 300),
    ),
)


def single_lines(fragments: list[str]) -> None:
    """A line made of pieces is read."""
    line = "".join(fragments).replace("\n", " ")
    LAST["single_lines"] = line
    check_line(line)


_SECRET_TEXTS = [frame.format(secret) for secret, frame in [*SECRETS, *OVER_LINES]]
_TEXTS = st.one_of(
    _FRAGMENTS,
    st.sampled_from([*_SECRET_TEXTS, *KEPT, "\n".join(PEM), f" {SECRET} ", "\n  ", "\n"]),
    st.builds(lambda text, cut: text[: cut % (len(text) + 1)], st.sampled_from(_SECRET_TEXTS), st.integers(0, 200)),
    st.builds(lambda text, cut: text[cut % (len(text) + 1) :], st.sampled_from(_SECRET_TEXTS), st.integers(0, 200)),
)


def redaction(fragments: list[str], noise: bytes, encoding: str) -> None:
    """Text made of secrets, halves of secrets and other pieces is redacted by the service."""
    data = "".join(fragments).encode(encoding, "surrogateescape" if encoding == "utf-8" else "replace") + noise
    LAST["redaction"] = data
    check_redaction(data)


def redaction_of_the_hook(fragments: list[str], noise: bytes) -> None:
    """The same by the hook."""
    data = "".join(fragments).encode("utf-8", "surrogateescape") + noise
    LAST["redaction_of_the_hook"] = data
    check_redaction(data, hook().Redaction("hook-test-not-a-token"))


@cache
def hook() -> Any:
    """Return the hook as a module."""
    spec = spec_from_loader("firstfault_hook_to_fuzz", SourceFileLoader("firstfault_hook_to_fuzz", str(HOOK)))
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def saved(target: str) -> tuple[str, bytes]:
    """Return the ending of the file's name, and the bytes, under which the last input of a target is kept."""
    value = LAST[target]
    if target == "bundles":
        files, job = value
        document = {"files": {name: data.hex() for name, data in files.items()}, "job": job}
        return "bundle.gz", gzip.compress(json.dumps(document).encode(), mtime=0)
    if target == "single_lines":
        return "line", value.encode("utf-8", "surrogateescape")
    return "redact" if target == "redaction" else "hook", value


_STRATEGIES: dict[str, tuple[Callable[..., None], tuple[st.SearchStrategy[Any], ...]]] = {
    "bundles": (bundles, _BUNDLES),
    "single_lines": (single_lines, (st.lists(_FRAGMENTS, max_size=8),)),
    "redaction": (
        redaction,
        (
            st.lists(_TEXTS, max_size=8),
            st.binary(max_size=8),
            st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-16-le"]),
        ),
    ),
    "redaction_of_the_hook": (redaction_of_the_hook, (st.lists(_TEXTS, max_size=8), st.binary(max_size=8))),
}
TARGETS = tuple(_STRATEGIES)


def fuzzed(target: str, number: int | None, examples: int) -> Callable[[], None]:
    """Return a function that tries a target with so many inputs: random ones of a seed, or with None always the same."""
    body, strategies = _STRATEGIES[target]

    def one(values: tuple[Any, ...]) -> None:
        body(*values)

    test = given(st.tuples(*strategies))(one)
    run: Callable[[], None] = settings(
        max_examples=examples,
        derandomize=number is None,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        phases=[Phase.generate],  # shrinking takes minutes, and a found input is kept as it is
    )(test if number is None else seed(number)(test))
    return run
