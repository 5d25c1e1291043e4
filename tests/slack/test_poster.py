"""Posting: once, whatever the network does, and with errors that say what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.slack.contract import Posted, RateLimited, Refused, SlackFile, SlackMessage, Unreachable
from bot.slack.message import HEADLINE_BLOCKS, render
from bot.slack.poster import EVENT_TYPE, SlackPoster, web_client
from tests.slack import samples
from tests.slack.fake import FakeSlack, FaultKind
from tests.slack.patience import until
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


LOG = SlackFile("rank-137.err", "Log of rank 137", "CUDA error: unspecified launch failure\n")


@pytest.fixture
async def parent(poster: SlackPoster) -> Posted:
    """A message with a thread to write in."""
    return await poster.post(CHANNEL, MESSAGE, "parent")


async def test_a_reply_stands_in_the_thread_and_not_in_the_channel(
    slack: FakeSlack, poster: SlackPoster, parent: Posted
) -> None:
    posted = await poster.post(CHANNEL, MESSAGE, KEY, parent.ts)
    assert [reply["ts"] for reply in slack.workspace.thread(parent.ts)] == [posted.ts]
    assert [message["ts"] for message in slack.workspace.messages()] == [parent.ts]
    assert not slack.called("chat.postMessage")[-1].arguments.get("reply_broadcast")


async def test_a_reply_whose_answer_was_lost_is_found_in_its_thread(
    slack: FakeSlack, poster: SlackPoster, parent: Posted
) -> None:
    slack.fail("chat.postMessage", "drop-after")
    with pytest.raises(Unreachable):
        await poster.post(CHANNEL, MESSAGE, KEY, parent.ts)
    (reply,) = slack.workspace.thread(parent.ts)
    for number in range(250):
        slack.workspace.say(CHANNEL, f"chatter {number}", parent.ts)
    assert await poster.find(CHANNEL, KEY, EARLIER, parent.ts) == Posted(CHANNEL, reply["ts"])
    assert await poster.find(CHANNEL, KEY, EARLIER) is None
    assert await poster.find(CHANNEL, "another", EARLIER, parent.ts) is None


async def test_a_reply_is_edited_in_place(slack: FakeSlack, poster: SlackPoster, parent: Posted) -> None:
    posted = await poster.post(CHANNEL, MESSAGE, KEY, parent.ts)
    await poster.update(CHANNEL, posted.ts, render(*samples.host_oom()))
    (reply,) = slack.workspace.thread(parent.ts)
    assert "rlhf-ppo-7b" in reply["text"]
    assert reply["thread_ts"] == parent.ts


async def test_a_thread_without_its_parent_is_a_refusal(poster: SlackPoster) -> None:
    with pytest.raises(Refused) as refused:
        await poster.find(CHANNEL, KEY, EARLIER, "1.000001")
    assert refused.value.code == "thread_not_found"


async def test_a_file_is_believed_once_it_shows(slack: FakeSlack, poster: SlackPoster, parent: Posted) -> None:
    slack.files.delay = 0.3
    shared = await poster.upload(CHANNEL, parent.ts, LOG)
    (file,) = slack.files.shared(CHANNEL, parent.ts)
    assert (file.id, file.name, file.title, file.content.decode()) == (shared.ts, LOG.name, LOG.title, LOG.text)
    assert await poster.find_file(CHANNEL, parent.ts, LOG.name) == shared
    assert await poster.find_file(CHANNEL, parent.ts, "rank-0.err") is None


async def test_a_file_that_never_shows_is_in_doubt(slack: FakeSlack, poster: SlackPoster, parent: Posted) -> None:
    slack.files.swallow = True
    with pytest.raises(Unreachable, match="does not show"):
        await SlackPoster(web_client(BOT_TOKEN, slack.base_url), visible_seconds=0.3).upload(CHANNEL, parent.ts, LOG)
    assert await poster.find_file(CHANNEL, parent.ts, LOG.name) is None


async def test_a_file_whose_answer_was_lost_is_found_and_not_shared_twice(
    slack: FakeSlack, poster: SlackPoster, parent: Posted
) -> None:
    slack.fail("files.completeUploadExternal", "drop-after")
    with pytest.raises(Unreachable):
        await poster.upload(CHANNEL, parent.ts, LOG)
    assert len(slack.called("files.completeUploadExternal")) == 1
    await until(lambda: slack.files.shared(CHANNEL, parent.ts))
    assert await poster.find_file(CHANNEL, parent.ts, LOG.name) is not None


async def test_without_the_scope_to_look_slack_is_believed(
    slack: FakeSlack, poster: SlackPoster, parent: Posted
) -> None:
    slack.workspace.missing_scopes.add("files:read")
    assert (await poster.upload(CHANNEL, parent.ts, LOG)).channel == CHANNEL


async def test_without_the_scope_to_share_the_remedy_names_it(
    slack: FakeSlack, poster: SlackPoster, parent: Posted
) -> None:
    slack.workspace.missing_scopes.add("files:write")
    with pytest.raises(Refused) as refused:
        await poster.upload(CHANNEL, parent.ts, LOG)
    assert "files:write" in refused.value.remedy


async def test_an_empty_log_is_a_file_too(slack: FakeSlack, poster: SlackPoster, parent: Posted) -> None:
    await poster.upload(CHANNEL, parent.ts, SlackFile("empty.err", "empty.err", ""))
    assert slack.files.shared(CHANNEL, parent.ts)[0].content


async def test_the_address_of_a_message_costs_no_call(slack: FakeSlack, poster: SlackPoster) -> None:
    assert poster.link(Posted(CHANNEL, "1.000001")) is None
    posted = await poster.post(CHANNEL, MESSAGE, KEY)
    asked = await poster._client.chat_getPermalink(channel=CHANNEL, message_ts=posted.ts)
    calls = len(slack.calls)
    assert poster.link(posted) == asked["permalink"]
    assert len(slack.calls) == calls
