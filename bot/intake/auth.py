"""Who may report: one token a cluster, kept as a hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from aiohttp import web

from bot.intake.errors import IntakeError
from storage.repository import Repository
from storage.tables import Cluster

_HINT = "send 'Authorization: Bearer TOKEN'; `firstfault cluster add NAME` makes a token"


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return f"ff_{secrets.token_urlsafe(32)}"


def hashed(token: str) -> str:
    """Return what is stored of a token. Tokens are long and random, so a fast hash is safe."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


async def authenticate(request: web.Request, repository: Repository) -> Cluster:
    """Return the cluster whose token the request carries. Raises IntakeError 401 without a known one."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise _unauthorized("no-token", "the request carries no token")
    digest = hashed(token.strip())
    cluster = await repository.clusters.by_token_hash(digest)
    if cluster is None or not hmac.compare_digest(cluster.token_hash, digest):
        raise _unauthorized("unknown-token", "no cluster has this token")
    return cluster


def _unauthorized(code: str, message: str) -> IntakeError:
    return IntakeError(401, code, message, _HINT, {"WWW-Authenticate": "Bearer"})
