"""Objects that are nested deeper than anything can be read."""

from __future__ import annotations

import json

import pytest

from hooks.kubernetes.api import Api
from hooks.kubernetes.following import Collection
from hooks.kubernetes.nesting import loads

DEEP = "[" * 5000 + "]" * 5000


def test_only_what_lies_too_deep_is_left_out() -> None:
    text = f'{{"before": [{{"a": "]}}\\"["}}], "x": {DEEP}, "after": {{"b": [1]}}}}'
    found = loads(text.encode())
    assert (found["before"], found["after"]) == ([{"a": ']}"['}], {"b": [1]})
    assert found["x"][0]


@pytest.mark.parametrize("text", [DEEP[:-1], "[" * 5000, DEEP + "]", '{"a": ' * 5000])
def test_what_is_no_json_is_not_made_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text.encode())


def test_an_event_of_the_watch_is_read_with_the_rest_of_its_object(api: Api) -> None:
    item = {
        "metadata": {"name": "odd", "namespace": "train", "uid": "u", "resourceVersion": "7"},
        "status": {"x": "HERE"},
    }
    event = json.dumps({"type": "MODIFIED", "object": item}).replace('"HERE"', DEEP)
    change = Collection(api, "/x")._read(event.encode())
    assert change is not None
    assert change.item["metadata"]["name"] == "odd"


@pytest.fixture
def api() -> Api:
    return Api(None)
