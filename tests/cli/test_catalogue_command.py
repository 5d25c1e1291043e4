"""`firstfault catalogue`: listing and searching, rules that other programs accept, and pages that are up to date."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import re2
import yaml

from bot.cli import catalogue_docs, nccl_page
from bot.cli.export import NEEDS, Format, chosen, counter, export
from bot.cli.lookup import layers
from bot.cli.plain_regex import Untranslatable, any_of, translate
from bot.cli.words import Index
from knowledge.catalogue import load_catalogue
from knowledge.signature import Signature, SignatureRole

from .conftest import Run

EACH = pytest.mark.parametrize("entry", list(load_catalogue()), ids=list(load_catalogue().entries))
LOKI = re.compile(
    r'sum by \([a-z, ]+\) \(count_over_time\(\{job="train"\} \|~ ("(?:[^"\\]|\\.)*") \|~ ("(?:[^"\\]|\\.)*") \[5m\]\)\) > 0'
)


def test_layers_are_listed_with_their_counts(firstfault: Run) -> None:
    result = firstfault("catalogue")
    assert result.returncode == 0
    counts = {name: int(count) for name, count in re.findall(r"^  ([\w-]+) +(\d+)  ", result.stdout, re.MULTILINE)}
    assert counts.keys() == set(layers().values())
    assert f"{sum(counts.values())} entries" in result.stdout


def test_a_layer_shows_its_entries_and_an_unknown_one_those_there_are(firstfault: Run) -> None:
    shown = firstfault("catalogue", "list", "network").stdout
    assert {name for name, layer in layers().items() if layer == "network"} <= set(shown.split())
    unknown = firstfault("catalogue", "list", "gardening")
    assert unknown.returncode == 1
    assert "network" in unknown.stdout


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ("fell off the bus", "xid-79-gpu-lost"),
        ("vendor err 129", "nccl-ib-retry-exceeded"),
        ("docker interface nccl", "nccl-virtual-interface"),
        ("watchdog timout collective", "c10d-watchdog-timeout"),
        ("fabric manager version", "fabricmanager-version-mismatch"),
        ("shared memory full", "dataloader-shm-full"),
    ],
)
def test_words_find_what_one_remembers(words: str, entry: str) -> None:
    found = [result.entry.id for result in Index(load_catalogue(), layers()).search(words)]
    assert entry in found[:3]


def test_a_search_in_vain_says_so(firstfault: Run) -> None:
    result = firstfault("catalogue", "search", "xylophone")
    assert result.returncode == 1
    assert "xylophone" in result.stdout


# --- patterns for others


@EACH
def test_exported_patterns_find_the_entry_s_lines_with_re2(entry: Signature) -> None:
    pattern = re2.compile(any_of(entry.regex).text)
    for sample in entry.samples.match:
        assert pattern.search(sample.text), sample.text


@EACH
def test_exported_patterns_leave_near_misses_alone_where_they_are_exact(entry: Signature) -> None:
    plain = any_of(entry.regex)
    pattern = re2.compile(plain.text)
    for text in entry.samples.no_match:
        found = any(literal in text for literal in entry.literals) and pattern.search(text)
        assert not (plain.exact and found), text


def test_few_patterns_are_not_exact() -> None:
    loose = [entry.id for entry in load_catalogue() if not any_of(entry.regex).exact]
    assert len(loose) <= len(load_catalogue().entries) // 20, loose


def test_grep_finds_every_sample_with_the_exported_file(tmp_path: Path) -> None:
    entries = list(load_catalogue())
    patterns = tmp_path / "patterns.ere"
    patterns.write_text(export(entries, Format.GREP), encoding="utf-8")
    samples = [sample.text for entry in entries for sample in entry.samples.match if "\n" not in sample.text]
    log = tmp_path / "samples.log"
    log.write_text("\n".join(samples) + "\n", encoding="utf-8")
    missed = subprocess.run(
        ["grep", "-vEf", patterns, log], capture_output=True, text=True, check=False, env={"LC_ALL": "C.UTF-8"}
    )
    assert missed.returncode == 1, missed.stdout or missed.stderr


@pytest.mark.parametrize(
    ("regex", "plain", "exact"),
    [
        (r"status=(?P<code>\d+)(?!\w)", r"status=([0-9]+)([^[:alnum:]_]|$)", True),
        (r"a(?:bb|c)*?d", "a(bb|c)*d", True),
        (r"(?i)ok [x-z]", "[oO][kK] [x-zX-Z]", True),
        (r"[^\]\n]{1,80}\]", r"[^]]+\]", True),
        (r"x\S{0,3}\.", r"x[^[:space:]]{0,3}\.", True),
        (r"(?<=a)b(?!c)d", "bd", False),
    ],
)
def test_patterns_are_rewritten_for_re2_and_grep_alike(regex: str, plain: str, exact: bool) -> None:
    written = translate(regex)
    assert (written.text, written.exact) == (plain, exact)


@pytest.mark.parametrize("regex", [r"(a)\1", r"a\nb", r"[\\x]"])
def test_what_has_no_counterpart_is_refused(regex: str) -> None:
    with pytest.raises(Untranslatable):
        translate(regex)


# --- rules


def _rules(text: str) -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(text)["groups"]:
        assert group["name"]
        yield from group["rules"]


@pytest.mark.parametrize("form", [Format.LOKI, Format.PROMETHEUS])
def test_rules_are_whole_and_say_what_they_need(form: Format) -> None:
    text = export(chosen([], layer=None, everything=True), form)
    assert " ".join(line[2:] for line in text.split("\n") if line.startswith("# ")) == NEEDS[form]
    rules = list(_rules(text))
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert all(re.fullmatch(r"[A-Za-z_]\w*", rule["alert"]) for rule in rules)
    assert all(rule.keys() == {"alert", "expr", "labels", "annotations"} for rule in rules)
    assert all(isinstance(value, str) for rule in rules for value in {**rule["labels"], **rule["annotations"]}.values())
    assert "{{" not in text


@EACH
def test_loki_finds_what_the_entry_finds(entry: Signature) -> None:
    (rule,) = _rules(export([entry], Format.LOKI, selector='{job="train"}'))
    query = LOKI.fullmatch(rule["expr"])
    assert query, rule["expr"]
    filters = [re2.compile(json.loads(text)) for text in query.groups()]
    for sample in entry.samples.match:
        assert all(wanted.search(sample.text) for wanted in filters)


def test_every_counter_of_a_prometheus_rule_is_kept_by_the_mtail_program() -> None:
    entries = chosen([], layer=None, everything=True)
    program = export(entries, Format.MTAIL)
    kept = re.findall(r"^counter (\w+)$", program, re.MULTILINE)
    assert len(kept) == len(set(kept))
    used = set(re.findall(r"firstfault_log_\w+", yaml.safe_dump(list(_rules(export(entries, Format.PROMETHEUS))))))
    assert used == set(kept)
    for regex in re.findall(r"^/(.*)/ \{$", program, re.MULTILINE):
        assert not re.search(r"(?<!\\)/", regex)
        re2.compile(regex)


def test_an_entry_with_a_metric_of_its_own_needs_no_mtail() -> None:
    (rule,) = _rules(export(chosen(["xid-79-gpu-lost"], layer=None, everything=False), Format.PROMETHEUS))
    assert rule["expr"] == "DCGM_FI_DEV_XID_ERRORS == 79"
    assert rule["labels"]["needs"].startswith("dcgm-exporter")
    assert rule["labels"]["severity"] == "critical"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(export(chosen([], layer=None, everything=True), Format.PROMETHEUS), encoding="utf-8")
    subprocess.run(["promtool", "check", "rules", rules], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("mtail") is None, reason="mtail is not installed")
def test_mtail_counts_with_the_program(tmp_path: Path) -> None:
    entry = load_catalogue()["nccl-cuda-failure"]
    (tmp_path / "progs").mkdir()
    (tmp_path / "progs" / "firstfault.mtail").write_text(export([entry], Format.MTAIL), encoding="utf-8")
    (tmp_path / "train.log").write_text(f"step 1\n{entry.samples.match[0].text}\n", encoding="utf-8")
    command = ["mtail", "--one_shot", "--one_shot_format=json", "--port=0", "--logtostderr"]
    command += ["--progs", str(tmp_path / "progs"), "--logs", str(tmp_path / "train.log")]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert re.search(rf'"Name": "{counter(entry)}"[^$]*?"Value": 1,', result.stdout)


def test_named_entries_are_taken_whatever_they_are_and_layers_only_where_failures_begin() -> None:
    assert [entry.id for entry in chosen(["nccl-interface"], layer=None, everything=False)] == ["nccl-interface"]
    assert {entry.role for entry in chosen([], layer="nccl", everything=False)} == {SignatureRole.ROOT}


@pytest.mark.parametrize("arguments", [["no-such-entry"], ["--layer", "gardening"], []])
def test_a_choice_that_names_nothing_is_one_line(firstfault: Run, arguments: list[str]) -> None:
    result = firstfault("catalogue", "export", "--format", "loki", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_patterns_go_to_standard_output_alone(firstfault: Run) -> None:
    result = firstfault("catalogue", "export", "--format", "grep", "xid-79-gpu-lost")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 1
    assert "grep" in result.stderr


# --- pages


def test_the_committed_pages_are_what_the_catalogue_says() -> None:
    assert catalogue_docs.main(["--check"]) == 0, "run python -m bot.cli.catalogue_docs"


def test_every_link_of_the_pages_leads_somewhere() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in catalogue_docs.FOLDER.glob("*.md")}
    anchors = {name: set(re.findall(r"^## (\S+)$", text, re.MULTILINE)) for name, text in pages.items()}
    for name, text in pages.items():
        for target, anchor in re.findall(r"\]\(([\w.-]+\.md)?(?:#([\w-]+))?\)", text):
            assert not target or target in pages, f"{name}: {target}"
            assert not anchor or anchor in anchors[target or name], f"{name}: {target}#{anchor}"


def test_all_of_nccl_stands_side_by_side_with_where_to_look() -> None:
    text = (catalogue_docs.FOLDER / "nccl-errors.md").read_text(encoding="utf-8")
    for entry in load_catalogue():
        if layers()[entry.id] == "nccl":
            assert f"[`{entry.id}`]" in text
            assert entry.look_at, f"{entry.id} does not say whom to look at"
    assert "NCCL_SOCKET_IFNAME" in nccl_page.variables(load_catalogue()["nccl-virtual-interface"])
