"""Writes the chart's README from the comments in values.yaml: `python -m tests.helm.readme`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm" / "firstfault"
_KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z]\w*):")
_HEAD = """# Firstfault on Kubernetes

The service, which takes reports and posts to Slack, and a watcher, which reports the jobs that fail in this cluster.
[docs/kubernetes.md](../../docs/kubernetes.md) tells how to install and use them.

## Values

| value | default | meaning |
| --- | --- | --- |
"""


def readme() -> str:
    """Return the README as it should be. Raises ValueError for a value that no comment explains."""
    text = (CHART / "values.yaml").read_text("utf-8")
    defaults = yaml.safe_load(text)
    rows = [f"| `{'.'.join(path)}` | {_shown(_at(defaults, path))} | {meaning} |\n" for path, meaning in _values(text)]
    return _HEAD + "".join(rows)


def _values(text: str) -> Iterator[tuple[list[str], str]]:
    defaults = yaml.safe_load(text)
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    inside = -1  # the indent of an explained key, whose contents are its value
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip().startswith("#"):
            if inside < 0 or indent <= inside:
                comment.append(line.strip().removeprefix("#").strip())
            continue
        found = _KEY.match(line)
        if not found or (0 <= inside < indent):
            continue
        inside = -1
        path = [(at, key) for at, key in path if at < indent] + [(indent, found["key"])]
        keys = [key for _, key in path]
        if comment:
            yield keys, " ".join(comment)
            comment, inside = [], indent
        elif not isinstance(_at(defaults, keys), dict) or not _at(defaults, keys):
            raise ValueError(f"values.yaml does not explain {'.'.join(keys)}")


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _shown(value: Any) -> str:
    if value in ("", [], {}):
        return ""
    text = json.dumps(value) if not isinstance(value, str) else value
    return f"`{text.strip()}`" if len(text) <= 60 and "\n" not in text.strip() else "see `values.yaml`"


if __name__ == "__main__":
    (CHART / "README.md").write_text(readme(), "utf-8")
