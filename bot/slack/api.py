"""Calls of Slack's Web API: what is repeated, what never is, and errors that say what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.contract import RateLimited, Refused, Unreachable

SLACK_API = "https://slack.com/api/"

THREAD_GONE = "thread_not_found"
"""The code for a reply to a message that is not there any more."""

_ONCE = ("/chat.postMessage", "/files.completeUploadExternal", "/views.open")
_AGAIN_LATER = {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "accesslimited"}
_REMEDIES = {
    "invalid_auth": "check slack.bot_token: it must be the app's current bot token (xoxb-…)",
    "not_authed": "set slack.bot_token to the app's bot token (xoxb-…)",
    "account_inactive": "the app was removed from the workspace; install it again and set the new bot token",
    "token_revoked": "install the app again and set the new bot token",
    "token_expired": "install the app again and set the new bot token",
    "missing_scope": "add the scope to the app (see the app manifest) and install it again",
    "not_allowed_token_type": "use the bot token (xoxb-…) here, and the app token (xapp-…) for Socket Mode only",
    "channel_not_found": "use the channel's id (C… or G…) and invite the app to the channel if it is private",
    "not_in_channel": "invite the app to the channel: /invite @Firstfault",
    "is_archived": "the channel is archived; choose another channel",
    "restricted_action": "a workspace setting forbids apps to post in this channel; ask an owner of the workspace",
    "msg_too_long": "this is a fault of Firstfault: the message is too long for Slack; please report it",
    "msg_blocks_too_long": "this is a fault of Firstfault: the message is too long for Slack; please report it",
    "invalid_blocks": "this is a fault of Firstfault: Slack cannot read the message; please report it",
    "invalid_attachments": "this is a fault of Firstfault: Slack cannot read the message; please report it",
    "message_not_found": "the message was deleted in Slack; post it anew",
    "cant_update_message": "the message belongs to another app or token; post it anew",
    THREAD_GONE: "the message above the thread was deleted; post it anew",
    "edit_window_closed": "a workspace setting forbids late edits; post it anew or allow edits at any time",
}


class OnlyWhatIsSafe(AsyncRetryHandler):
    """Repeats a request that never reached Slack. A post that may have arrived is never repeated blindly."""

    async def _can_retry_async(
        self,
        *,
        state: RetryState,  # noqa: ARG002
        request: HttpRequest,
        response: HttpResponse | None = None,  # noqa: ARG002
        error: Exception | None = None,
    ) -> bool:
        if isinstance(error, aiohttp.ClientConnectorError):
            return True
        lost = isinstance(error, aiohttp.ServerConnectionError | aiohttp.ClientOSError)
        return lost and not request.url.endswith(_ONCE)


def web_client(token: str, base_url: str = SLACK_API, timeout_seconds: int = 10) -> AsyncWebClient:
    """Return a client that obeys the retry rule above. `base_url` is for tests and proxies."""
    handlers: list[AsyncRetryHandler] = [OnlyWhatIsSafe(max_retry_count=1)]
    base_url = base_url.rstrip("/") + "/"
    return AsyncWebClient(token=token, base_url=base_url, timeout=timeout_seconds, retry_handlers=handlers)


async def answered(call: Awaitable[Any]) -> dict[str, Any]:
    """Return the data of a successful call. Raises RateLimited, Refused or Unreachable for all others."""
    try:
        answer: dict[str, Any] = (await call).data
    except SlackApiError as error:
        raise _translated(error) from error
    except TimeoutError as error:
        raise Unreachable("Slack did not answer in time") from error
    except (aiohttp.ClientError, SlackClientError, OSError, asyncio.IncompleteReadError) as error:
        raise Unreachable(f"Slack cannot be reached: {error or type(error).__name__}") from error
    return answer


def _translated(error: SlackApiError) -> RateLimited | Refused | Unreachable:
    response: Any = error.response
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0) or 0)
    if status == 429 or code in {"ratelimited", "rate_limited"}:
        return RateLimited(_retry_after(getattr(response, "headers", None) or {}))
    if not code or status >= 500 or code in _AGAIN_LATER:
        return Unreachable(f"Slack answered with {code or f'HTTP {status}'}")
    return Refused(code, _remedy(code, data if isinstance(data, dict) else {}))


def _remedy(code: str, data: dict[str, Any]) -> str:
    remedy = _REMEDIES.get(code, "see Slack's page on this method for what the code means")
    needed = data.get("needed")
    return f"{remedy}; missing: {needed}" if needed else remedy


def _retry_after(headers: Any) -> float:
    value = next((headers[name] for name in headers if name.lower() == "retry-after"), "")
    try:
        return max(1.0, float(value))
    except ValueError:
        return 30.0
