"""Makes the pictures of docs/slack.md from what the service would send: `make pictures`, which needs Chromium.

The incident is the recorded job of `make demo`, the storm's verdict that of a case, and the digest that of the hand-made
week; people, and what they did before, are made up.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import bot.demo
from bot.answers.answerer import Answerer, Question
from bot.answers.matter import Matter
from bot.answers.rendering import as_message
from bot.cli.ask import matter_of
from bot.slack.contract import Before, IncidentStatus, SlackFile, SlackMessage
from bot.slack.message import render
from bot.slack.modals import correction, resolution
from bot.slack.thread import replies
from tests.digest.scenes import digest
from tests.slack import preview, samples, scenes

CHANNEL = "C0TRAINFAIL"
RECORDING = Path(bot.demo.__path__[0]) / "recording"
LOG = "gpu-n04/rank-5.log"
FILE_SERVER = Path(__file__).parents[1] / "cases" / "simulated" / "s094"
QUESTION = "is it safe to restart?"
MODAL_WIDTH = 612


def failure() -> SlackMessage:
    """The message, seen for the third time."""
    failed = _recorded()
    return render(failed.job, failed.diagnosis, _status())


def thread() -> list[SlackMessage | SlackFile | str]:
    """The thread below it, with a question and its answer."""
    failed = _recorded()
    posted = replies(failed.job, failed.diagnosis, _status(), failed.dossier, [], [])
    log = SlackFile(LOG.replace("/", "-"), LOG, (RECORDING / "logs" / LOG).read_text())
    asked = preview.person("Alice Example", QUESTION)
    answer = as_message(asyncio.run(Answerer().answer(Question(QUESTION, failed))))
    return [*(reply.content for reply in posted), log, asked, answer]


def storm() -> SlackMessage:
    """Five hundred jobs that wait for one file server."""
    failed = matter_of(FILE_SERVER)
    members = tuple(
        replace(each, where=each.where.replace("gpu-n", "atlas-gpu-")) for each in scenes.storm_members(100)
    )
    example = {"scheduler": "slurm", "cluster": "atlas", "job_id": "48401", "name": "rlhf-ppo-7b", "user": "dave"}
    status = IncidentStatus(
        episode_id=scenes.EPISODE, url=samples.URL, occurrences=500, member_count=500, members=members
    )
    return render(failed.job.model_copy(update=example), failed.diagnosis, status)


PICTURES: Mapping[str, Callable[[], list[str]]] = {
    "slack-message": lambda: [preview.message(failure())],
    "slack-thread": lambda: [preview.thread(thread())],
    "slack-modal": lambda: [preview.modal(ask(scenes.EPISODE, CHANNEL, None)) for ask in (resolution, correction)],
    "slack-storm": lambda: [preview.message(storm())],
    "slack-digest": lambda: [preview.message(shown) for shown in digest()],
}


def make(browser: str, folder: Path) -> None:
    """Draw all pictures into `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, parts in PICTURES.items():
            page = Path(scratch, f"{name}.html")
            page.write_text(preview.page(parts()), encoding="utf-8")
            preview.photograph(browser, page, MODAL_WIDTH if name == "slack-modal" else preview.WIDTH)
            (folder / f"{name}.png").write_bytes(page.with_suffix(".png").read_bytes())


@cache
def _recorded() -> Matter:
    return matter_of(RECORDING)


def _status() -> IncidentStatus:
    first, last = datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 14, tzinfo=UTC)
    before = Before("bob", last, "fixed", "shard 17 rebuilt with the tokenizer of this model", scenes.LINK)
    opened = IncidentStatus(url=samples.URL, reported=2, expected=2, episode_id=scenes.EPISODE, owner="U0ALICE")
    return replace(opened, occurrences=3, first_seen=first, last_seen=last, nodes=("gpu-n04",), before=before)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
