"""Posting: once, whatever the network does, and with errors that say what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.slack.contract import Posted, RateLimited, Refused, SlackMessage, Unreachable
from bot.slack.message import HEADLINE_BLOCKS, render
from bot.slack.poster import EVENT_TYPE, SlackPoster, web_client
from tests.slack import samples
from tests.slack.fake import FakeSlack, FaultKind
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL

KEY = "alps/slurm/48213/0"
EARLIER = datetime.now(UTC) - timedelta(hours=1)
MESSAGE = render(*samples.gpu_lost())


@pytest.fixture
def poster(slack: FakeSlack) -> SlackPoster:
    """The real poster on the real SDK, talking to the fake."""
    return SlackPoster(web_client(BOT_TOKEN, slack.base_url, timeout_seconds=1))


async def test_a_post_carries_text_blocks_bar_and_mark(slack: FakeSlack, poster: SlackPoster) -> None:
    posted = await poster.post(CHANNEL, MESSAGE, KEY)
    (message,) = slack.workspace.messages()
    assert posted == Posted(CHANNEL, message["ts"])
    assert message["text"] == MESSAGE.text
    assert message["blocks"] == MESSAGE.blocks[:HEADLINE_BLOCKS]
    assert message["attachments"] == [{"color": MESSAGE.colour, "blocks": MESSAGE.blocks[HEADLINE_BLOCKS:]}]
    assert message["metadata"] == {"event_type": EVENT_TYPE, "event_payload": {"key": KEY}}


async def test_nothing_unfurls_and_no_name_becomes_a_link(slack: FakeSlack, poster: SlackPoster) -> None:
    await poster.post(CHANNEL, MESSAGE, KEY)
    (call,) = slack.called("chat.postMessage")
    off = {name: call.arguments[name] for name in ("unfurl_links", "unfurl_media", "link_names")}
    assert set(off.values()) <= {False, "0", "false"}
    assert not call.arguments.get("reply_broadcast")


async def test_a_channel_by_name_is_answered_with_its_id(slack: FakeSlack, poster: SlackPoster) -> None:
    assert (await poster.post("#train-failures", MESSAGE, KEY)).channel == CHANNEL


async def test_an_update_edits_in_place_and_keeps_the_mark(slack: FakeSlack, poster: SlackPoster) -> None:
    posted = await poster.post(CHANNEL, MESSAGE, KEY)
    later = render(*samples.host_oom())
    await poster.update(posted.channel, posted.ts, later)
    (message,) = slack.workspace.messages()
    assert message["ts"] == posted.ts
    assert message["text"] == later.text
    assert message["blocks"] == later.blocks[:HEADLINE_BLOCKS]
    assert message["attachments"][0]["color"] == later.colour
    assert await poster.find(CHANNEL, KEY, EARLIER) == posted


@pytest.mark.parametrize("kind", ["drop-after", "error-after", "delay-after"])
async def test_a_post_whose_answer_is_lost_is_not_repeated_but_found(
    slack: FakeSlack, poster: SlackPoster, kind: FaultKind
) -> None:
    slack.fail("chat.postMessage", kind, seconds=2)
    with pytest.raises(Unreachable):
        await poster.post(CHANNEL, MESSAGE, KEY)
    (message,) = slack.workspace.messages()
    assert len(slack.called("chat.postMessage")) == 1
    assert await poster.find(CHANNEL, KEY, EARLIER) == Posted(CHANNEL, message["ts"])


@pytest.mark.parametrize("kind", ["drop-before", "error-before", "429"])
async def test_a_post_that_never_took_effect_is_not_found(
    slack: FakeSlack, poster: SlackPoster, kind: FaultKind
) -> None:
    slack.fail("chat.postMessage", kind)
    with pytest.raises((Unreachable, RateLimited)):
        await poster.post(CHANNEL, MESSAGE, KEY)
    assert await poster.find(CHANNEL, KEY, EARLIER) is None


async def test_a_lost_update_is_repeated_because_that_is_safe(slack: FakeSlack, poster: SlackPoster) -> None:
    posted = await poster.post(CHANNEL, MESSAGE, KEY)
    slack.fail("chat.update", "drop-after")
    await poster.update(CHANNEL, posted.ts, MESSAGE)
    assert len(slack.called("chat.update")) == 2


async def test_slack_says_how_long_to_wait(slack: FakeSlack, poster: SlackPoster) -> None:
    slack.fail("chat.postMessage", "429", seconds=17)
    with pytest.raises(RateLimited) as limited:
        await poster.post(CHANNEL, MESSAGE, KEY)
    assert limited.value.retry_after == 17
    assert len(slack.called("chat.postMessage")) == 1


async def test_two_posts_in_one_second_are_too_many(slack: FakeSlack, poster: SlackPoster) -> None:
    slack.workspace.pace = 60
    await poster.post(CHANNEL, MESSAGE, KEY)
    with pytest.raises(RateLimited) as limited:
        await poster.post(CHANNEL, MESSAGE, "another")
    assert limited.value.retry_after == pytest.approx(60, abs=2)


@pytest.mark.parametrize(
    ("channel", "code", "hint"),
    [
        ("C0ELSEWHERE", "not_in_channel", "/invite"),
        ("G0SECRET", "channel_not_found", "invite the app"),
        ("C0NOWHERE", "channel_not_found", "id"),
        ("C0OLD", "is_archived", "another channel"),
    ],
)
async def test_a_refusal_says_what_to_do(poster: SlackPoster, channel: str, code: str, hint: str) -> None:
    with pytest.raises(Refused) as refused:
        await poster.post(channel, MESSAGE, KEY)
    assert refused.value.code == code
    assert hint in refused.value.remedy


@pytest.mark.parametrize(
    ("token", "code"), [("xoxb-wrong", "invalid_auth"), (APP_TOKEN, "not_allowed_token_type"), ("", "not_authed")]
)
async def test_a_wrong_token_is_named(slack: FakeSlack, token: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        await SlackPoster(web_client(token, slack.base_url)).post(CHANNEL, MESSAGE, KEY)
    assert refused.value.code == code
    assert "token" in refused.value.remedy


async def test_a_deleted_message_cannot_be_edited(poster: SlackPoster) -> None:
    with pytest.raises(Refused) as refused:
        await poster.update(CHANNEL, "1.000001", MESSAGE)
    assert refused.value.code == "message_not_found"


async def test_blocks_that_slack_cannot_read_are_our_fault(poster: SlackPoster) -> None:
    with pytest.raises(Refused) as refused:
        await poster.post(CHANNEL, SlackMessage("x", [{"type": "header"}], "#000000"), KEY)
    assert "please report" in refused.value.remedy


async def test_nobody_listening_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        await SlackPoster(web_client(BOT_TOKEN, "http://127.0.0.1:9/api/")).post(CHANNEL, MESSAGE, KEY)


async def test_find_reads_beyond_the_first_page_and_takes_only_our_own(slack: FakeSlack, poster: SlackPoster) -> None:
    posted = await poster.post(CHANNEL, MESSAGE, KEY)
    for number in range(450):
        slack.workspace.say(CHANNEL, f"chatter {number}")
    forged = {"event_type": EVENT_TYPE, "event_payload": {"key": KEY}}
    slack.workspace.say(CHANNEL, "not ours", bot_id="B0OTHER", metadata=forged)
    slack.workspace.say(CHANNEL, "other mark", metadata={"event_type": "other", "event_payload": {"key": KEY}})
    assert await poster.find(CHANNEL, KEY, EARLIER) == posted
    assert await poster.find(CHANNEL, "another key", EARLIER) is None


async def test_find_looks_no_further_back_than_asked(slack: FakeSlack, poster: SlackPoster) -> None:
    await poster.post(CHANNEL, MESSAGE, KEY)
    assert await poster.find(CHANNEL, KEY, datetime.now(UTC) + timedelta(hours=1)) is None
