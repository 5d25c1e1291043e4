"""`/diagnose JOB`, `/diagnose LINK`, a question behind either, and `/diagnose` alone: a modal to paste into or to choose."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.answers.answerer import Answerer, Question
from bot.answers.rendering import as_message
from bot.answers.reply import Reply, Words
from bot.answers.slack import plain_question
from bot.answers.stored import Finder, Found
from bot.answers.uploads import Uploads
from bot.slack.api import answered
from bot.slack.commands import Answered, Commands, Invocation
from bot.slack.contract import PosterError
from bot.slack.escape import code, literal

VIEW = "diagnose_modal"
_PASTED, _CHOSEN = "pasted", "chosen"
_MOST = 3_000  # characters that Slack takes in an input
_OPTIONS = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asking:
    """The slash command's side of the answers."""

    finder: Finder
    answerer: Answerer
    uploads: Uploads
    client: AsyncWebClient

    async def about(self, asked: Invocation) -> Answered:
        """Answer a line that begins with no known word: a job, a link, or a question."""
        text = plain_question(asked.arguments)
        named = await self.finder.named(asked.arguments, asked.channel, asked.user)
        found = named or await self.finder.meant(text, asked.channel, asked.user)
        words = text.split()
        if named is None and (len(words) == 1 or "/archives/" in text or "/incidents/" in text):
            return Answered(f"No failure that may be told of here is called {code(words[0], 80)}.")
        question = text if named is None else _without_name(text, named)
        reply = await self.answerer.answer(
            Question(question or "why", found.matter if found else None, asked.user, asked.channel)
        )
        return _answered(_about(reply, found))

    async def open_modal(self, asked: Invocation) -> None:
        """Open the modal at once, since Slack waits for seconds only, and fill in the last failures afterwards."""
        opened = await answered(self.client.views_open(trigger_id=asked.mark, view=_view(asked.channel, [])))
        failures = await self.finder.newest(asked.channel, asked.user, _OPTIONS)
        if failures:
            view = _view(asked.channel, failures)
            await answered(self.client.views_update(view_id=opened["view"]["id"], view=view))

    async def submitted(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        """Answer what was pasted or chosen, to the person alone."""
        values = {key: value for block in body["view"]["state"]["values"].values() for key, value in block.items()}
        pasted = (values.get(_PASTED) or {}).get("value") or ""
        chosen = ((values.get(_CHOSEN) or {}).get("selected_option") or {}).get("value")
        if not pasted.strip() and not chosen:
            await ack(response_action="errors", errors={_PASTED: "Paste lines of a log, or choose a failure."})
            return
        await ack()
        channel, user = json.loads(body["view"]["private_metadata"])["channel"], body["user"]["id"]
        try:
            reply = await self._of_modal(pasted, chosen, channel, user)
        except Exception:
            log.exception("modal not answered")
            reply = Reply("", (Words("That failed on my side. The service's log says why."),))
        await self._tell(reply, channel, user)

    async def _of_modal(self, pasted: str, chosen: str | None, channel: str, user: str) -> Reply:
        if pasted.strip():
            return await self.uploads.diagnose([], pasted)
        found = await self.finder.of_episode(chosen or "", channel, user)
        if found is None:
            return Reply("", (Words("That failure is not stored any more, or may not be told of here."),))
        return _about(await self.answerer.answer(Question("why", found.matter, user, channel)), found)

    async def _tell(self, reply: Reply, channel: str, user: str) -> None:
        """In the channel, to the person alone; where we are not in it, in a direct message."""
        message = as_message(reply)
        try:
            await answered(
                self.client.chat_postEphemeral(channel=channel, user=user, text=message.text, blocks=message.blocks)
            )
        except PosterError:
            try:
                direct = await answered(self.client.conversations_open(users=user))
                place = str(direct["channel"]["id"])
                await answered(self.client.chat_postMessage(channel=place, text=message.text, blocks=message.blocks))
            except PosterError as error:
                log.warning("answer to a modal not delivered: %s", error)


def register(app: AsyncApp, commands: Commands, asking: Asking) -> None:
    """Teach the slash command jobs, links and questions, and what to do when it stands alone."""

    async def submitted(ack: AsyncAck, body: dict[str, Any]) -> None:
        await asking.submitted(ack, body)

    commands.register_rest(asking.about, asking.open_modal)
    app.view(VIEW)(submitted)


def _about(reply: Reply, found: Found | None) -> Reply:
    if found is None or not reply.understood:
        return reply
    return Reply(reply.intent, (Words(f"About {found.title}:"), *reply.parts))


def _answered(reply: Reply) -> Answered:
    message = as_message(reply)
    return Answered(message.text, message.blocks)


def _without_name(text: str, found: Found) -> str:
    """The question without the link or job by which the failure was named."""
    job = found.matter.job.job_id or ""
    kept = [word for word in text.split() if job not in word or not job]
    return " ".join(word for word in kept if "://" not in word)


def _view(channel: str, failures: list[tuple[str, str]]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [
        {
            "type": "input",
            "block_id": _PASTED,
            "optional": True,
            "label": {"type": "plain_text", "text": "Lines of a log"},
            "hint": {
                "type": "plain_text",
                "text": "They are diagnosed and not kept. Whole files: drop them with a mention.",
            },
            "element": {"type": "plain_text_input", "action_id": _PASTED, "multiline": True, "max_length": _MOST},
        }
    ]
    if failures:
        options = [
            {"text": {"type": "plain_text", "text": literal(title, 75) or episode}, "value": episode}
            for episode, title in failures
        ]
        blocks.append(
            {
                "type": "input",
                "block_id": _CHOSEN,
                "optional": True,
                "label": {"type": "plain_text", "text": "Or one of the last failures"},
                "element": {"type": "static_select", "action_id": _CHOSEN, "options": options},
            }
        )
    return {
        "type": "modal",
        "callback_id": VIEW,
        "private_metadata": json.dumps({"channel": channel}),
        "title": {"type": "plain_text", "text": "Diagnose"},
        "submit": {"type": "plain_text", "text": "Diagnose"},
        "close": {"type": "plain_text", "text": "Cancel"},
        "blocks": blocks,
    }
