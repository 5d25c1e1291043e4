"""What is sent to Slack, judged by slack_sdk, by slackblocks, by Slack's own types, and by what all of these miss."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.server import running
from bot.settings import Slack, SlackMode
from bot.slack import buttons
from bot.slack.contract import SlackMessage
from tests.bot.conftest import Client, settings_in
from tests.bot.test_night import Night
from tests.digest.scenes import digest
from tests.slack import pictures, scenes
from tests.slack.fake import FakeSlack
from tests.slack.judges import builders, compiler, house, sdk
from tests.slack.judges.sent import SPITEFUL, Payload, distinct, in_general, message, of_all_cases, view
from tests.slack.npm import OfflineError
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL

Judge = Callable[[Payload], list[str]]
FAILURES = 150  # of the cases; the few others say the same whatever people do
JUDGES: dict[str, Judge] = {"slack_sdk": sdk.problems, "slackblocks": builders.problems, "house": house.problems}


@pytest.fixture(scope="module")
def said() -> list[Payload]:
    """What all cases make the service say, and the scenes of the pictures."""
    return distinct([*of_all_cases(), *in_general(), *scenery()])


def scenery() -> Iterable[Payload]:
    """Every scene, and what the pictures of the documentation show, part by part."""
    drawn = {"picture": lambda: [pictures.failure(), pictures.storm(), pictures.thread()]}
    for name, scene in {**scenes.ALL, **drawn, "digest": digest}.items():
        for part in scene():
            for shown in part if isinstance(part, list) else [part]:
                if isinstance(shown, SlackMessage):
                    yield message(name, shown)
                elif isinstance(shown, dict):
                    yield view(name, shown)


def by_types(payloads: Iterable[Payload]) -> dict[str, list[str]]:
    """What Slack's types refuse; without them, and without a network to fetch them, the test is skipped."""
    try:
        return compiler.problems(payloads)
    except OfflineError as error:
        pytest.skip(str(error))


def test_every_case_says_something_in_every_state(said: list[Payload]) -> None:
    for state in ("open", "acknowledged", "resolved", "muted", "recovered", "storm", "recurred"):
        told = {payload.name.split("/")[0] for payload in said if payload.name.endswith(f"/{state}")}
        assert len(told) >= FAILURES, state


@pytest.mark.parametrize("judge", JUDGES)
def test_judges_accept_all_that_is_said(said: list[Payload], judge: str) -> None:
    refused = {payload.name: problems for payload in said if (problems := JUDGES[judge](payload))}
    assert not refused, _some(refused)


def test_slacks_own_types_accept_all_that_is_said(said: list[Payload]) -> None:
    refused = by_types(said)
    assert not refused, _some(refused)


def _some(refused: dict[str, list[str]]) -> str:
    return f"{len(refused)} refused: {dict(list(refused.items())[:5])}"


@pytest.fixture
async def night(tmp_path: Path, slack: FakeSlack) -> AsyncIterator[Night]:
    """The whole service, at work in our own fake Slack."""
    workspace = Slack(
        mode=SlackMode.SOCKET, channel=CHANNEL, bot_token=BOT_TOKEN, app_token=APP_TOKEN, api_url=slack.base_url
    )
    async with aiohttp.ClientSession() as session, running(settings_in(tmp_path, slack=workspace)) as service:
        found = Night(slack, Client(session, service.url))
        await found.until(lambda: slack.sockets)
        yield found


async def test_judges_accept_all_that_is_said_in_a_night(night: Night) -> None:
    """Modals, the Home tab, answers to the command and to the person alone, and the digest, as they reach Slack."""
    slack = night.slack
    await night.fails("48213")
    ts = night.message["ts"]
    for deed in (buttons.WRONG, buttons.RESOLVE):
        await slack.click(ts, deed)
    await slack.click(ts, buttons.ASSIGN, "U0BOB")
    await slack.click(ts, buttons.MUTE, "8h")
    await slack.write("what did rank 5 say last?", thread_ts=ts)
    await slack.open_home()
    for line in (
        "",
        "48213",
        "48213 is it the node?",
        "help",
        "status",
        "mute",
        "history",
        "history user alice",
        "digest",
    ):
        await slack.slash(line)
    pasting = await night.until(
        lambda: slack.views.opened[2:] and slack.called("views.update") and slack.views.opened[2]
    )
    await slack.submit(pasting, {"pasted": f"{SPITEFUL}\nRuntimeError: CUDA out of memory", "chosen": None})
    await night.until(lambda: len(slack.responses) >= 8 and slack.called("chat.postEphemeral"))
    await night.settles()
    heard = distinct(_heard(slack))
    assert {payload.kind for payload in heard} == {"message", "view"}
    refused = {payload.name: found for payload in heard for judge in JUDGES.values() if (found := judge(payload))}
    assert not refused, _some(refused)
    assert not by_types(heard)


def _heard(slack: FakeSlack) -> Iterable[Payload]:
    """All that was sent to Slack, as it came."""
    for number, call in enumerate(slack.calls):
        if call.method.startswith("views."):
            yield view(f"{call.method} {number}", call.arguments["view"])
        elif call.method in ("chat.postMessage", "chat.update", "chat.postEphemeral"):
            yield _as_sent(f"{call.method} {number}", call.arguments)
    for number, answer in enumerate(slack.responses):
        yield _as_sent(f"answer {number}", answer)


def _as_sent(name: str, arguments: dict[str, Any]) -> Payload:
    content = {key: arguments.get(key) or [] for key in ("blocks", "attachments")}
    return Payload(name, "message", {"text": arguments["text"], **content})


def _spoilt(spoil: Callable[[dict[str, Any]], object]) -> Payload:
    """A message that was right until `spoil` changed it."""
    shown = copy.deepcopy(message("spoilt", scenes.lost_gpu()).content)
    spoil(shown)
    return Payload("spoilt", "message", shown)


def _button(content: dict[str, Any]) -> dict[str, Any]:
    button: dict[str, Any] = content["attachments"][0]["blocks"][-1]["elements"][0]
    return button


def _table(rows: int, cell: str = "x") -> dict[str, Any]:
    return {"type": "table", "rows": [[{"type": "raw_text", "text": cell}]] * rows}


LONG_HEADER = _spoilt(lambda content: content["blocks"][0]["text"].update(text="x" * 151))
LONG_BUTTON = _spoilt(lambda content: _button(content)["text"].update(text="x" * 76))
TALL_TABLE = _spoilt(lambda content: content["blocks"].append(_table(101)))
UNKNOWN_BLOCK = _spoilt(lambda content: content["blocks"].append({"type": "heading", "text": "x"}))
UNKNOWN_KEY = _spoilt(lambda content: content["blocks"][0].update(txt="x"))
UNKNOWN_STYLE = _spoilt(lambda content: _button(content).update(style="warning"))
NO_TEXT = _spoilt(lambda content: content["blocks"][0].pop("text"))
EMPTY_RICH_TEXT = _spoilt(lambda content: content["blocks"].append({"type": "rich_text", "elements": []}))
OUR_OWN = {
    "no fallback": lambda content: content.update(text=" "),
    "a long fallback": lambda content: content.update(text="x" * 4_001),
    "a broadcast in the fallback": lambda content: content.update(text="<!channel> look"),
    "a stranger's mention": lambda content: content["blocks"][1]["elements"][0].update(text="<@U0MALLORY>"),
    "a stranger's link": lambda content: content["blocks"][1]["elements"][0].update(
        text="<https://evil.test|Incident>"
    ),
    "text from right to left": lambda content: content["blocks"][0]["text"].update(text="\u202egnp.exe"),
    "a control character": lambda content: content["blocks"][0]["text"].update(text="\x1b[31mred"),
    "thirteen blocks": lambda content: content["blocks"].extend([{"type": "divider"}] * 13),
    "too many characters": lambda content: content["blocks"].extend([_table(20, "x" * 300)] * 2),
    "a table of 10,001 characters": lambda content: content["blocks"].append(_table(73, "x" * 137)),
    "one action id twice": lambda content: content["attachments"][0]["blocks"][-1]["elements"].append(_button(content)),
    "one block id twice": lambda content: content["blocks"].append({**content["attachments"][0]["blocks"][-1]}),
}


@pytest.mark.parametrize(
    ("judge", "payload"),
    [
        ("slack_sdk", LONG_HEADER),
        ("slack_sdk", LONG_BUTTON),
        ("slack_sdk", UNKNOWN_BLOCK),
        ("slack_sdk", UNKNOWN_STYLE),
        ("slackblocks", LONG_HEADER),
        ("slackblocks", LONG_BUTTON),
        ("slackblocks", TALL_TABLE),
        ("slackblocks", EMPTY_RICH_TEXT),
        ("slackblocks", UNKNOWN_KEY),
        ("house", UNKNOWN_KEY),
        ("house", TALL_TABLE),
    ],
)
def test_judges_refuse_what_slack_would(judge: str, payload: Payload) -> None:
    assert JUDGES[judge](payload)


@pytest.mark.parametrize("fault", OUR_OWN)
def test_our_own_judge_refuses_what_the_others_miss(fault: str) -> None:
    assert house.problems(_spoilt(OUR_OWN[fault]))


def test_slacks_own_types_refuse_what_they_do_not_know() -> None:
    spoilt = {"a": UNKNOWN_KEY, "b": UNKNOWN_STYLE, "c": NO_TEXT, "d": UNKNOWN_BLOCK}
    right = message("right", scenes.lost_gpu())
    judged = by_types([right, *(replace(payload, name=name) for name, payload in spoilt.items())])
    assert judged.keys() == spoilt.keys()
