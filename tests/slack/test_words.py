"""`/diagnose status`, `mute`, `unmute`, `digest` and `history`, asked in a channel that was told a week of failures."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.webhook import WebhookResponse
from sqlmodel import select

from bot.digest.calendar import Schedule
from bot.digest.task import Digests
from bot.slack.app import build_app
from bot.slack.commands import MAX_ANSWER, Answered, Commands
from bot.slack.connection import SocketConnection
from bot.slack.poster import web_client
from bot.slack.words import register
from bot.slack.words.history import Wanted, causes_called, understood
from storage.actions import Actions
from storage.database import Database
from storage.history import Histories
from storage.tables import Incident, Mute
from tests.digest import week
from tests.digest.week import CHANNEL, ELSEWHERE
from tests.slack import blockkit
from tests.slack.fake import FakeSlack
from tests.slack.patience import until
from tests.slack.test_escape import HOSTILE
from tests.slack.told_week import database, told
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN

__all__ = ["database", "told"]

OURS = ("<!date^", "<@U0", "<https://example.test/")


@pytest.fixture
def commands(database: Database) -> Commands:
    """The command as the service teaches it."""

    async def health() -> str:
        return "all is well"

    known = Commands()
    digests = Digests(database, [Schedule(CHANNEL, 0, 9, 0, week.ZURICH)], now=lambda: week.MONDAY_AFTER)
    register(
        known,
        histories=Histories(database),
        actions=Actions(database),
        digests=digests,
        health=health,
        changed=lambda: None,
        link=lambda posted: f"https://example.test/{posted.channel}/{posted.ts}",
    )
    return known


async def answered(commands: Commands, line: str, channel: str = CHANNEL, mark: str = "1.1") -> Answered:
    answer = await commands.answer(line, "U0ALICE", channel, user_name="alice", mark=mark)
    assert answer is not None
    return answer


async def ask(commands: Commands, line: str, channel: str = CHANNEL, mark: str = "1.1") -> str:
    """Return the answer, which must fit Slack and hold nothing live but our own dates, people and links."""
    answer = await answered(commands, line, channel, mark)
    assert 0 < len(answer.text) <= (4_000 if answer.blocks else MAX_ANSWER)
    assert blockkit.problems(answer.blocks) == []
    foreign = [found for found in blockkit.live(answer.text) if not found.startswith(OURS)]
    assert foreign == []
    return answer.text


async def test_help_lists_the_words(commands: Commands) -> None:
    text = await ask(commands, "help")
    for word in ("status", "mute", "unmute", "digest", "history"):
        assert f"`/diagnose {word}`" in text


async def test_status_says_what_is_open_and_with_whom(commands: Commands) -> None:
    lines = (await ask(commands, "status")).split("\n")
    assert lines[0] == "5 failures are open here."
    assert lines[1].startswith("• *llama-70b* (1000): GPU fell off the bus (4 times) · open for ")
    assert " · acknowledged by <@U0BOB> · owner alice · <https://example.test/C0TRAINFAIL/" in lines[1]
    assert " · nobody has it · " in lines[2]
    assert " · assigned to <@U0CAROL> · " in lines[5]
    assert lines[6] == "Firstfault: all is well"


async def test_a_channel_is_not_told_of_others(commands: Commands) -> None:
    assert (await ask(commands, "status", ELSEWHERE)).startswith("1 failure is open here.")
    assert (await ask(commands, "status", "C0NOBODY")).startswith("Nothing is open here.")
    assert "no failure of node gpu-n17" in await ask(commands, "history node gpu-n17", ELSEWHERE)
    assert "no job, node, user or cause" in await ask(commands, "history 1000", ELSEWHERE)
    assert "No failure in this channel" in await ask(commands, "mute 1000 8h", ELSEWHERE)


async def test_history_of_a_node(commands: Commands) -> None:
    lines = (await ask(commands, "history node gpu-n17")).split("\n")
    assert lines[0] == "6 failures of node gpu-n17:"
    assert len(lines) == 7
    assert "*llama-70b* (1003) of alice · GPU fell off the bus on gpu-n17 · acknowledged" in lines[1]
    assert lines[5].endswith("resolved by <@U0BOB>: node drained")


async def test_history_in_any_order_of_words(commands: Commands) -> None:
    expected = await ask(commands, "history node gpu-n17")
    for line in ("history gpu-n17", "history gpu-n17 node", "history of the node gpu-n17", "HISTORY host GPU-N17"):
        answer = await ask(commands, line)
        assert answer.split("\n")[1:] == expected.split("\n")[1:], line


async def test_history_of_a_user_and_a_cause_together(commands: Commands) -> None:
    assert (await ask(commands, "history user grace")).startswith("3 failures of user grace:")
    both = await ask(commands, "history cause link down user carol")
    assert both.startswith("8 failures of user carol, Network link went down:")
    assert (await ask(commands, "history user alice cause disk-full")).startswith("This channel was told of no failure")


async def test_history_of_everything_shows_the_newest(commands: Commands) -> None:
    lines = (await ask(commands, "history")).split("\n")
    assert lines[0] == "38 failures, the newest 20:"
    assert lines[-1].startswith("… and ")
    assert "*vit-large*" in lines[1]


async def test_history_of_a_job_says_how_often_and_who_fixed_it_how(commands: Commands) -> None:
    lines = (await ask(commands, "history 1000")).split("\n")
    assert lines[0] == "`1000`: *GPU fell off the bus*, seen 6 times in this channel."
    assert lines[1].startswith("First <!date^")
    assert lines[2] == "Begun by gpu-n17."
    assert lines[3].startswith("Last time resolved by <@U0BOB>: node drained, <!date^")


async def test_what_is_not_understood_is_never_called_the_same(commands: Commands) -> None:
    assert "is not known to be the same again" in await ask(commands, "history 6000")


async def test_a_cause_that_nobody_knows_is_owned_up_to(commands: Commands) -> None:
    assert "I know no cause called `gremlins`" in await ask(commands, "history cause gremlins")
    assert "no job, node, user or cause called `gremlins`" in await ask(commands, "history gremlins")


async def test_a_mute_is_stored_listed_and_ended(commands: Commands, database: Database) -> None:
    assert (await ask(commands, "mute")).startswith("Nothing is muted here.")
    said = await ask(commands, "mute 8h 1000", mark="1.2")
    assert said.startswith("Muted here until <!date^")
    assert "`f1a0000000000001`" in said
    listed = await ask(commands, "mute")
    assert listed.startswith("Muted here: 1 failure.\n• GPU fell off the bus (`f1a0000000000001`) until <!date^")
    assert listed.endswith(", by <@U0ALICE>")
    assert await ask(commands, "unmute f1a000", mark="1.3") == "No longer muted here: GPU fell off the bus."
    assert await ask(commands, "unmute f1a000", mark="1.4") == "GPU fell off the bus is not muted here."
    async with database.reading() as session:
        [mute] = await session.scalars(select(Mute))
    assert (mute.user, mute.channel, mute.ended_at is not None) == ("U0ALICE", CHANNEL, True)


@pytest.mark.parametrize("line", ["mute 8h", "mute 1000 2000", "mute 1000 1h 2h", "mute for"])
async def test_a_mute_that_is_unclear_says_how(commands: Commands, line: str) -> None:
    assert "Say it like `/diagnose mute JOB 8h`" in await ask(commands, line)


@pytest.mark.parametrize("line", ["mute 1000 31d", "mute 1000 0h", "mute 1000 99999w"])
async def test_a_mute_has_an_end(commands: Commands, line: str) -> None:
    assert await ask(commands, line) == "A mute holds for 30 days at most."


async def test_the_digest_comes_with_charts_and_without(commands: Commands) -> None:
    answer = await answered(commands, "digest")
    assert answer.text.startswith("📊 ")
    assert {"data_visualization", "table"} <= {block["type"] for block in answer.blocks}
    assert not {"data_visualization", "table"} & {block["type"] for block in answer.otherwise}
    assert "Say it like" in await ask(commands, "digest tomorrow")
    assert "Say it like" in await ask(commands, "digest 9999")
    assert (await ask(commands, "digest 14d")).startswith("📊 34 training failures, 10–23 Nov")


@pytest.mark.parametrize("word", ["status", "mute", "unmute", "digest", "history", "history node", "history cause"])
async def test_hostile_questions_are_answered_inertly(commands: Commands, word: str) -> None:
    for text in HOSTILE.values():
        await ask(commands, f"{word} {text}")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_names_in_the_database_are_inert(commands: Commands, database: Database, text: str) -> None:
    text = text.replace("\0", "").encode("utf-8", "replace").decode()
    async with database.writing() as session:
        for incident in await session.scalars(select(Incident)):
            incident.job_name, incident.owner, incident.cause = text[:200], text[:100], text[:100]
    for line in ("status", "history", "history 1000", "mute", "digest"):
        await ask(commands, line)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Wanted()),
        ("48213", Wanted(name="48213")),
        ("node", Wanted()),
        ("gpu-n17 node", Wanted(node="gpu-n17")),
        ("cause out of memory node `gpu-n17`", Wanted(cause="out memory", node="gpu-n17")),
        ("user alice user bob", Wanted(user="alice")),
    ],
)
def test_words_are_understood(text: str, wanted: Wanted) -> None:
    assert understood(text) == wanted


@pytest.mark.parametrize(
    ("text", "causes"),
    [("gpu-oom", ["gpu-oom"]), ("GPU out memory", ["gpu-oom"]), ("fell off bus", ["gpu-lost"]), ("gremlins", [])],
)
def test_causes_are_found_by_words_of_their_titles(text: str, causes: list[str]) -> None:
    assert causes_called(text) == causes


async def test_the_digest_is_answered_over_the_socket(slack: FakeSlack, commands: Commands) -> None:
    connection = SocketConnection(build_app(web_client(BOT_TOKEN, slack.base_url), commands), APP_TOKEN)
    await connection.start()
    await until(lambda: slack.sockets)
    await slack.slash("digest")
    answers: list[dict[str, Any]] = await until(lambda: slack.responses)
    await connection.stop()
    assert "training failures" in answers[0]["text"]
    assert blockkit.problems(answers[0]["blocks"]) == []


async def test_a_workspace_that_refuses_charts_is_answered_in_letters(commands: Commands) -> None:
    shown: list[set[str]] = []

    async def respond(**said: Any) -> WebhookResponse:
        shown.append({block["type"] for block in said.get("blocks", [])})
        refused = "table" in shown[-1]
        return WebhookResponse(url="", status_code=400 if refused else 200, body="invalid_blocks", headers={})

    await (await answered(commands, "digest")).send(respond)  # type: ignore[arg-type]
    assert len(shown) == 2
    assert "table" in shown[0]
    assert shown[1] == {"header", "rich_text", "section", "context"}
