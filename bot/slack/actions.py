"""What happens when somebody clicks: acknowledged at once, stored once, answered where it was clicked.

What everybody should see is told by the message, which is edited; the person who clicked hears, alone, what the message
does not say: that somebody was faster, how long a mute holds, or that it did not work.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack import buttons, modals
from bot.slack.escape import moment, person
from storage.actions import Click, Done, Outcome
from storage.repository import Repository
from storage.tables import Episode, EpisodeState
from storage.types import utc_now

GONE = "This incident is not stored any more."
BROKEN = "That did not work: it could not be stored. Please click again; the service's log says why."
NOT_OURS = "This button belongs to an older message that is not known any more."

Body = dict[str, Any]
Store = Callable[[Click], Awaitable[Outcome]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Words:
    """What the person who clicked hears: `done` when it was stored, `nothing` where the episode was so already."""

    done: str = ""  # empty: the edited message says it all
    nothing: str = ""  # empty: who was faster


def register(app: AsyncApp, repository: Repository, changed: Callable[[], None]) -> None:
    """Listen to all buttons, selects and modals of episodes. `changed` is called after each that changed something."""
    clicks = Clicks(repository, changed)
    for action, listener in {
        buttons.ACKNOWLEDGE: clicks.acknowledge,
        buttons.ASSIGN: clicks.assign,
        buttons.REOPEN: clicks.reopen,
        buttons.MUTE: clicks.mute,
        buttons.UNMUTE: clicks.unmute,
        buttons.REDIAGNOSE: clicks.rediagnose,
        buttons.RIGHT: clicks.right,
        buttons.RESOLVE: clicks.ask_resolution,
        buttons.WRONG: clicks.ask_correction,
    }.items():
        app.action(action)(listener)
    app.view(modals.RESOLUTION)(clicks.resolve)
    app.view(modals.CORRECTION)(clicks.correct)


@dataclass(frozen=True)
class Clicks:
    """The listeners. Each acknowledges first; a modal is opened before anything else is done."""

    repository: Repository
    changed: Callable[[], None]

    async def acknowledge(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        await self._clicked(body, respond, self.repository.actions.acknowledge, Words())

    async def assign(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        assignee = body["actions"][0].get("selected_user")
        said = Words(nothing=f"{person(assignee)} has it already." if assignee else "Nobody has it.")
        await self._clicked(body, respond, lambda click: self.repository.actions.assign(click, assignee), said)

    async def reopen(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        await self._clicked(body, respond, self.repository.actions.reopen, Words(nothing="It is open already."))

    async def mute(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        chosen = (body["actions"][0].get("selected_option") or {}).get("value", "")
        if chosen not in buttons.MUTES:
            return
        duration = timedelta(hours=buttons.MUTES[chosen][0])
        said = Words(
            f"Muted in this channel until {moment(utc_now() + duration)}: when this failure recurs, it is counted and "
            "shown in its message, and nobody is woken.",
            "This failure cannot be recognised when it recurs, so it cannot be muted.",
        )
        await self._clicked(body, respond, lambda click: self.repository.actions.mute(click, duration), said)

    async def unmute(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        said = Words(nothing="It is not muted in this channel any more.")
        await self._clicked(body, respond, self.repository.actions.unmute, said)

    async def rediagnose(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        said = Words(
            "The stored logs are diagnosed again. If the verdict changes, the message does, and the thread says why.",
            "Its logs are not stored any more, so there is nothing to diagnose.",
        )
        await self._clicked(body, respond, self.repository.actions.rediagnose, said)

    async def right(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        said = Words("Noted: the verdict is right. Thank you.")
        await self._clicked(body, respond, lambda click: self.repository.actions.judge(click, right=True), said)

    async def ask_resolution(self, ack: AsyncAck, body: Body, client: AsyncWebClient, respond: AsyncRespond) -> None:
        await ack()
        await _open(modals.resolution, body, client, respond)

    async def ask_correction(self, ack: AsyncAck, body: Body, client: AsyncWebClient, respond: AsyncRespond) -> None:
        await ack()
        await _open(modals.correction, body, client, respond)

    async def resolve(self, ack: AsyncAck, body: Body, client: AsyncWebClient) -> None:
        given = modals.resolution_of(body["view"])
        if isinstance(given, modals.Wrong):
            await ack(response_action="errors", errors=given.errors)
            return
        await ack()
        await self._submitted(
            body, client, lambda click: self.repository.actions.resolve(click, given.reason, given.note), Words()
        )

    async def correct(self, ack: AsyncAck, body: Body, client: AsyncWebClient) -> None:
        given = modals.correction_of(body["view"])
        if isinstance(given, modals.Wrong):
            await ack(response_action="errors", errors=given.errors)
            return
        await ack()
        said = Words("Noted, thank you: the correction is kept with this incident and can be exported as a case.")
        await self._submitted(
            body,
            client,
            lambda click: self.repository.actions.judge(click, right=False, correction=given.detail()),
            said,
        )

    async def _clicked(self, body: Body, respond: AsyncRespond, store: Store, words: Words) -> None:
        episode_id = buttons.episode_of(body["actions"][0])
        told = NOT_OURS if episode_id is None else await self._stored(_click(body, episode_id), store, words)
        if told:
            await _alone(told, body, respond)

    async def _submitted(self, body: Body, client: AsyncWebClient, store: Store, words: Words) -> None:
        about = modals.asked(body["view"])
        click = Click(
            key=f"{body['view']['id']}:{body['user']['id']}",
            episode_id=about.episode_id,
            user=body["user"]["id"],
            user_name=_name(body),
            channel=about.channel,
        )
        told = await self._stored(click, store, words)
        if told:
            try:
                await client.chat_postEphemeral(
                    channel=about.channel, user=click.user, text=told, thread_ts=about.thread
                )
            except (SlackClientError, OSError, TimeoutError):
                log.warning("an answer could not be shown", extra={"channel": about.channel}, exc_info=True)

    async def _stored(self, click: Click, store: Store, words: Words) -> str:
        """Store the click and return what to tell the person; nothing where the message tells it, or was told before."""
        try:
            outcome = await store(click)
        except LookupError:
            return GONE
        except Exception:
            log.exception("a click could not be stored", extra={"episode": click.episode_id})
            return BROKEN
        if outcome.done is Done.AGAIN:
            return ""
        if outcome.done is Done.NOTHING:
            return words.nothing or _already(outcome.episode)
        self.changed()
        return words.done


async def _open(
    modal: Callable[[str, str, str | None], modals.View], body: Body, client: AsyncWebClient, respond: AsyncRespond
) -> None:
    episode_id = buttons.episode_of(body["actions"][0])
    if episode_id is None:
        await _alone(NOT_OURS, body, respond)
        return
    view = modal(episode_id, body["channel"]["id"], _thread(body))
    try:
        await client.views_open(trigger_id=body["trigger_id"], view=view)
    except (SlackClientError, OSError, TimeoutError) as error:
        if "exchanged_trigger_id" in str(error):  # the same click arrived twice, and the form is open
            return
        log.warning("a modal could not be opened: %s", error)
        await _alone("Slack did not let the form open in time. Please click again.", body, respond)


async def _alone(text: str, body: Body, respond: AsyncRespond) -> None:
    """Answer the person alone, in the thread where the message stands in one."""
    more: dict[str, Any] = {"thread_ts": thread} if (thread := _thread(body)) else {}
    try:
        await respond(text=text, response_type="ephemeral", replace_original=False, unfurl_links=False, **more)
    except (SlackClientError, OSError, TimeoutError):
        log.warning("an answer could not be shown", exc_info=True)


def _click(body: Body, episode_id: str) -> Click:
    action, user, channel = body["actions"][0], body["user"]["id"], body["channel"]["id"]
    stood = (body.get("container") or {}).get("message_ts") or (body.get("message") or {}).get("ts", "")
    return Click(
        key=f"{channel}:{stood}:{action.get('action_ts', '')}:{user}",
        episode_id=episode_id,
        user=user,
        user_name=_name(body),
        channel=channel,
    )


def _name(body: Body) -> str:
    return str(body["user"].get("username") or body["user"].get("name") or "")


def _thread(body: Body) -> str | None:
    """The thread in which the message stands; None for one that stands in the channel."""
    thread = (body.get("container") or {}).get("thread_ts") or (body.get("message") or {}).get("thread_ts")
    stood = (body.get("container") or {}).get("message_ts")
    return str(thread) if thread and thread != stood else None


def _already(episode: Episode) -> str:
    """How the episode is, for somebody who was not the first."""
    if episode.state == EpisodeState.RESOLVED and episode.resolved_by:
        return f"{person(episode.resolved_by)} resolved it already."
    if episode.state == EpisodeState.ACKNOWLEDGED and episode.acknowledged_by:
        return f"{person(episode.acknowledged_by)} acknowledged it already."
    return "It is so already."
