"""Logs that people drop or point at in Slack: fetched within bounds, diagnosed in a worker, kept nowhere."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from bot.answers.answerer import Answerer, Question
from bot.answers.asked import Asked
from bot.answers.logs import FolderLogs
from bot.answers.matter import Matter
from bot.answers.reply import Reply, Steps, Words
from bot.answers.slots import Slots
from bot.answers.telling import story
from bot.answers.understanding import understand
from bot.pipeline.work import Examined, diagnose_folder
from bot.slack import phrases
from bot.slack.api import answered
from bot.slack.contract import PosterError
from bot.workers import WorkerCrashedError, Workers, WorkerTimeoutError
from knowledge.reading.bundle import open_bundle

MAX_FILES = 8  # of one message
MAX_BYTES = 32 << 20  # of one file
MAX_PASTED = 40_000  # characters
_SECONDS = 120.0  # for one diagnosis
_PIECE = 1 << 16

_FENCE = re.compile(r"^```\w*\n?|\n?```$")
_LINK = re.compile(r"<(?:https?|mailto):[^|>]+\|([^>]*)>|<((?:https?|mailto):[^>]+)>")

NEEDS_SCOPE = (
    "Slack gave a page to log in instead of the file: the app lacks the scope `files:read`. "
    "Add it (see the app's manifest), install the app again, and drop the file once more."
)


class NotFetchedError(Exception):
    """A file could not be had; the message says why and what to do."""


@dataclass(frozen=True)
class Uploads:
    """Diagnoses what people hand in. `folder` is where files lie while they are read."""

    client: AsyncWebClient
    workers: Workers
    folder: Path
    max_bytes: int = MAX_BYTES

    async def diagnose(self, files: Sequence[dict[str, Any]], text: str, question: str = "") -> Reply:
        """Fetch `files`, or take `text` as the log; return the verdict, or the answer to `question` about it."""
        with tempfile.TemporaryDirectory(prefix="upload-", dir=self.folder) as place:
            logs = Path(place) / "logs"
            logs.mkdir()
            told: list[str] = []
            for number, file in enumerate(files[:MAX_FILES]):
                try:
                    await self._fetch(file, logs / _name(file, number))
                except NotFetchedError as error:
                    told.append(str(error))
            if len(files) > MAX_FILES:
                told.append(f"Of {len(files)} files the first {MAX_FILES} were read.")
            if not files:
                (logs / "pasted.log").write_text(as_log(text), encoding="utf-8")
            if not any(path.stat().st_size for path in logs.iterdir()):
                return Reply("upload", (Words(" ".join(told) or "There is no text in it to diagnose."),))
            reply = await self._examined(Path(place), question)
        return Reply(reply.intent or "upload", (*(Words(sentence) for sentence in told), *reply.parts))

    async def _examined(self, case: Path, question: str) -> Reply:
        try:
            found = Examined.model_validate_json(await self.workers.run(_SECONDS, diagnose_folder, case))
        except (WorkerCrashedError, WorkerTimeoutError) as error:
            return Reply(
                "upload", (Words(f"This log could not be diagnosed: {error}. `firstfault diagnose` may say more."),)
            )
        if found.dossier is None:
            return Reply("upload", (Words(found.diagnosis.cause.summary), *map(Words, found.diagnosis.missing)))
        bundle = open_bundle([case])
        paths = {source.name: source.path for source in bundle.sources}
        matter = Matter(found.diagnosis, found.dossier, bundle.job, FolderLogs(paths))
        if question and understand(question).intent:
            return await Answerer().answer(Question(question, matter))
        verdict = await story.why(Asked(matter, "upload", Slots()))
        steps = Steps(tuple(found.diagnosis.fix), "Fix", numbered=True)
        again = Words(f"Restart: {phrases.restart(found.diagnosis)}.")
        return Reply("upload", (*verdict.parts, *((steps, again) if found.diagnosis.fix else ())))

    async def _fetch(self, file: dict[str, Any], target: Path) -> None:
        name = str(file.get("name") or "the file")
        if file.get("file_access") == "check_file_info" or not file.get("url_private_download"):
            try:
                file = (await answered(self.client.files_info(file=str(file.get("id", ""))))).get("file") or {}
            except PosterError as error:
                raise NotFetchedError(f"{name} could not be had: {error}") from error
        if int(file.get("size") or 0) > self.max_bytes:
            raise NotFetchedError(
                f"{name} is larger than {self.max_bytes >> 20} MiB; use `firstfault diagnose` where it lies."
            )
        address = str(file.get("url_private_download") or "")
        if not address.startswith(("https://", "http://127.0.0.1:")):
            raise NotFetchedError(f"{name} has no address from which it could be had.")
        try:
            await self._download(address, name, target)
        except TimeoutError as error:
            raise NotFetchedError(f"Slack did not send {name} in time; drop it once more.") from error
        except aiohttp.ClientError as error:
            raise NotFetchedError(f"{name} could not be had from Slack: {error or type(error).__name__}") from error

    async def _download(self, address: str, name: str, target: Path) -> None:
        headers = {"Authorization": f"Bearer {self.client.token}"}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
            session.get(address, headers=headers, proxy=self.client.proxy, ssl=self.client.ssl or True) as reply,
        ):
            if reply.status != 200:
                raise NotFetchedError(f"Slack did not give {name}: HTTP {reply.status}.")
            size, first = 0, b""
            with target.open("wb") as kept:
                async for piece in reply.content.iter_chunked(_PIECE):
                    first = first or piece
                    size += len(piece)
                    if size > self.max_bytes:
                        raise NotFetchedError(f"{name} is larger than {self.max_bytes >> 20} MiB.")
                    kept.write(piece)
        page = first[:400].lstrip().lower().startswith((b"<!doctype html", b"<html"))
        if page and not name.lower().endswith((".html", ".htm")):
            await asyncio.to_thread(target.unlink)
            raise NotFetchedError(NEEDS_SCOPE)


def as_log(text: str) -> str:
    """The text of a message as the lines that somebody pasted into it: without fences, and without what Slack added."""
    lines = _FENCE.sub("", text[:MAX_PASTED].strip())
    lines = _LINK.sub(lambda found: found[1] or found[2], lines)
    return lines.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") + "\n"


def _name(file: dict[str, Any], number: int) -> str:
    """A plain name for the file; what people call it tells whose log it is."""
    plain = re.sub(r"[^\w.-]", "_", str(file.get("name") or ""))[-100:].lstrip(".")
    return f"{plain}" if plain and number == 0 else f"{number}-{plain}" if plain else f"{number}.log"
