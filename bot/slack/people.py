"""Who is who: the scheduler's user to a person in Slack, by the table in the settings or by e-mail; never by guessing."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.api import answered
from bot.slack.contract import PosterError, RateLimited, Refused

KNOWN_SECONDS = 24 * 3600.0
UNKNOWN_SECONDS = 3600.0
PAUSE_SECONDS = 60.0  # without lookups, when Slack is away
REFUSED_SECONDS = 3600.0  # without lookups, when a scope is missing: somebody may add it
MOST = 10_000  # people remembered

_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_ID = re.compile(r"[UW][A-Z0-9]{2,}")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Remembered:
    answer: str | None
    until: float


class People:
    """Finds people. Whatever goes wrong, the answer is None: a message without a mention is better than none."""

    def __init__(
        self,
        client: AsyncWebClient,
        people: Mapping[str, str],
        email_domain: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._people = dict(people)
        self._domain = email_domain
        self._clock = clock
        self._known: OrderedDict[str, _Remembered] = OrderedDict()
        self._asking = asyncio.Lock()
        self._paused_until = float("-inf")
        self._told: set[str] = set()

    async def slack_id(self, user: str | None) -> str | None:
        """Return Slack's id of the scheduler's user, or None where nobody is known to be meant."""
        if not user:
            return None
        named = self._people.get(user)
        if named and _ID.fullmatch(named):
            return named
        email = named or (f"{user}@{self._domain}" if self._domain and _USER.fullmatch(user) else None)
        if email is None:
            return None
        address = email.lower()
        return await self._looked_up(f"email:{address}", lambda: self._by_email(address))

    async def scheduler_users(self, slack_id: str) -> tuple[str, ...]:
        """Return the scheduler's users that a person in Slack stands for: the table's, then the e-mail's own name."""
        email = await self._looked_up(f"user:{slack_id}", lambda: self._email_of(slack_id))
        users = [user for user, person in self._people.items() if person in {slack_id, email}]
        if email and self._domain and email.endswith(f"@{self._domain.lower()}"):
            own = email.removesuffix(f"@{self._domain.lower()}")
            if own not in self._people:
                users.append(own)
        return tuple(dict.fromkeys(users))

    async def _by_email(self, email: str) -> str | None:
        user = (await answered(self._client.users_lookupByEmail(email=email))).get("user") or {}
        return str(user["id"]) if not user.get("deleted") and not user.get("is_bot") else None

    async def _email_of(self, slack_id: str) -> str | None:
        user = (await answered(self._client.users_info(user=slack_id))).get("user") or {}
        email = (user.get("profile") or {}).get("email")
        return str(email).lower() if email and not user.get("deleted") else None

    async def _looked_up(self, key: str, ask: Callable[[], Awaitable[str | None]]) -> str | None:
        """Ask Slack once for what many messages want to know, and remember the answer, also that there is none."""
        async with self._asking:
            remembered = self._known.get(key)
            now = self._clock()
            if remembered is not None and now < remembered.until:
                self._known.move_to_end(key)
                return remembered.answer
            if now < self._paused_until:
                return None
            try:
                answer = await ask()
            except Refused as error:
                if error.code not in {"users_not_found", "user_not_found", "user_not_visible"}:
                    self._pause(REFUSED_SECONDS, error.code, str(error))
                    return None
                answer = None
            except RateLimited as error:
                self._pause(error.retry_after, "ratelimited", str(error))
                return None
            except (PosterError, KeyError) as error:
                self._pause(PAUSE_SECONDS, "unreachable", str(error))
                return None
            self._remember(key, answer)
            return answer

    def _remember(self, key: str, answer: str | None) -> None:
        seconds = KNOWN_SECONDS if answer else UNKNOWN_SECONDS
        self._known[key] = _Remembered(answer, self._clock() + seconds)
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def _pause(self, seconds: float, code: str, reason: str) -> None:
        self._paused_until = self._clock() + seconds
        if code not in self._told:
            self._told.add(code)
            log.warning("people cannot be looked up; nobody is mentioned meanwhile", reason=reason, seconds=seconds)


def people_of(settings: Any, client: AsyncWebClient) -> People:
    """Return the people of the settings' table `[slack]`."""
    return People(client, settings.people, settings.email_domain)
