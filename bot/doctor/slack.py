"""Is Slack fit: tokens, scopes, channels, events, and whether the clocks agree. Nothing is posted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.doctor.finding import Finding, Level, fail, ok, warn
from bot.routing.channels import named_in
from bot.settings import Settings, SlackMode
from bot.slack.api import answered, web_client
from bot.slack.contract import PosterError, RateLimited, Refused, Unreachable
from bot.slack.escape import literal
from bot.slack.scopes import APP_SCOPE, EVENTS, missing

MOST_CHANNELS = 50
"""Channels that are looked at; Slack allows about fifty such calls a minute."""

NOTICEABLE_SECONDS, FATAL_SECONDS = 60, 300
"""How far the clocks may differ: a little, and as much as Slack's signatures allow."""

_NETWORK = "let this machine reach slack.com over https, if need be through HTTPS_PROXY"


async def examine_slack(
    settings: Settings, client: AsyncWebClient | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> list[Finding]:
    """Return what is right and wrong with Slack; `client` stands in for one of its own."""
    slack = settings.slack
    if slack.mode is SlackMode.CONSOLE:
        return [ok("slack", "slack.mode is 'console': messages go to the terminal, and Slack is not asked")]
    client = client or web_client(slack.bot_token.get_secret_value(), str(slack.api_url))
    try:
        answer, headers = await _with_headers(client.auth_test)
    except PosterError as error:
        return [_failed("slack token", error)]
    team, site = literal(str(answer.get("team", "")), 80), literal(str(answer.get("url", "")), 100)
    findings = [ok("slack token", f"the bot token belongs to an app in {team or 'a workspace'} ({site})")]
    granted = _granted(headers)
    findings += _scopes(granted)
    findings += _clock(headers, now(), slack.mode)
    if slack.mode is SlackMode.SOCKET:
        findings.append(await _app_token(client, slack.app_token.get_secret_value()))
    findings += await _channels(client, named_in(settings), granted or ())
    return [*findings, _events(granted)]


async def _with_headers(call: Callable[[], Awaitable[Any]]) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return a successful answer and its headers, names in lower case. Raises like `answered`."""
    headers: dict[str, str] = {}

    async def listened() -> Any:
        response = await call()
        headers.update({name.lower(): str(value) for name, value in response.headers.items()})
        return response

    return await answered(listened()), headers


def _failed(check: str, error: PosterError) -> Finding:
    if isinstance(error, Refused):
        return fail(check, f"Slack says {error.code}", error.remedy)
    if isinstance(error, RateLimited):
        return warn(check, "Slack limits the rate of calls just now", f"ask again in {error.retry_after:g} s")
    return fail(check, str(error), _NETWORK if isinstance(error, Unreachable) else "see the service's log")


def _granted(headers: Mapping[str, str]) -> frozenset[str] | None:
    """Return the token's scopes, or None where Slack does not tell."""
    said = headers.get("x-oauth-scopes")
    return None if said is None else frozenset(scope.strip() for scope in said.split(",") if scope.strip())


def _scopes(granted: Collection[str] | None) -> Iterator[Finding]:
    if granted is None:
        yield warn(
            "scopes", "Slack did not say which scopes the token has", "compare OAuth & Permissions with the manifest"
        )
        return
    lacking = list(missing(granted))
    for scope in lacking:
        level = Level.FAIL if scope.required else Level.WARN
        remedy = "add it under OAuth & Permissions and install the app again"
        yield Finding(f"scope {scope.name}", level, f"missing: {scope.without}", remedy)
    if not lacking:
        yield ok("scopes", "the token has all of them")


def _clock(headers: Mapping[str, str], now: datetime, mode: SlackMode) -> Iterator[Finding]:
    try:
        theirs = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return
    seconds = (now - theirs).total_seconds()
    apart = f"this clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} Slack's"
    if abs(seconds) < NOTICEABLE_SECONDS:
        yield ok("clock", "it agrees with Slack's")
    elif mode is SlackMode.HTTP and abs(seconds) >= FATAL_SECONDS:
        yield fail("clock", f"{apart}; what Slack sends is refused", "synchronise it, for example with chrony")
    else:
        yield warn("clock", apart, "synchronise it, for example with chrony")


async def _app_token(client: AsyncWebClient, token: str) -> Finding:
    try:
        await answered(client.apps_connections_open(app_token=token))
    except Refused as error:
        remedy = f"make one with the scope {APP_SCOPE} under Basic Information → App-Level Tokens: slack.app_token"
        return fail("app token", f"Slack says {error.code}", remedy)
    except PosterError as error:
        return _failed("app token", error)
    return ok("app token", "Socket Mode can be opened")


async def _channels(client: AsyncWebClient, channels: Sequence[str], granted: Collection[str]) -> list[Finding]:
    findings = []
    for channel in channels[:MOST_CHANNELS]:
        found = await _channel(client, channel, granted)
        findings.append(found)
        if found.level is Level.WARN and found.detail.startswith("Slack limits"):
            break
    if len(channels) > MOST_CHANNELS:
        rest = f"{len(channels) - MOST_CHANNELS} more channels were not looked at"
        findings.append(warn("channels", rest, "nothing to do"))
    return findings


async def _channel(client: AsyncWebClient, channel: str, granted: Collection[str]) -> Finding:
    check = f"channel {channel}"
    try:
        found = (await answered(client.conversations_info(channel=channel))).get("channel") or {}
    except Refused as error:
        if error.code == "missing_scope":
            return warn(
                check, "it cannot be looked at", "add the scopes channels:read and groups:read, or post and see"
            )
        if error.code == "channel_not_found":
            return fail(
                check, "there is no such channel, or it is private and the app is not in it", f"{_INVITE}; check the id"
            )
        return fail(check, f"Slack says {error.code}", error.remedy)
    except PosterError as error:
        return _failed(check, error)
    name = literal(f"#{found['name']}" if found.get("name") else "a direct message", 80)
    if found.get("is_archived"):
        return fail(check, f"{name} is archived", "choose another channel in the settings")
    if found.get("is_member") or found.get("is_im"):
        return ok(check, f"{name}, and the app is in it")
    if "chat:write.public" in granted:
        return warn(check, f"the app may post in {name}, but is not in it and hears no questions", _INVITE)
    return fail(check, f"the app is not in {name}", _INVITE)


_INVITE = "type /invite @Firstfault in the channel"


def _events(granted: Collection[str] | None) -> Finding:
    """No token can read an app's subscriptions, so only what surely does not arrive is a warning."""
    deaf = sorted(event for event, scope in EVENTS.items() if scope and granted is not None and scope not in granted)
    if deaf:
        detail = f"{', '.join(deaf)} cannot arrive without their scopes"
        return warn("events", detail, "add the scopes and install the app again")
    detail = f"Slack tells no app to what it subscribes; the manifest names {', '.join(sorted(EVENTS))}"
    return ok("events", f"{detail}: where a mention stays without an answer, compare Event Subscriptions")
