"""`firstfault ask`: the same answers as in Slack, about files on disk."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bot.answers.answerer import Answerer, Question
from bot.answers.logs import FolderLogs
from bot.answers.matter import Matter
from bot.answers.rendering import as_text
from bot.cli import output
from knowledge import examine
from knowledge.errors import UnreadableEvidence
from knowledge.reading.bundle import open_bundle

ANSWERED, NOT_UNDERSTOOD, BAD_USAGE = 0, 1, 2  # exit status


def run(path: Path, words: Sequence[str]) -> int:
    """Answer one question about the case at `path`; return the exit status."""
    try:
        matter = matter_of(path)
    except UnreadableEvidence as error:
        print(f"firstfault: {error}", file=sys.stderr)
        return BAD_USAGE
    reply = asyncio.run(Answerer().answer(Question(" ".join(words), matter)))
    output.write(as_text(reply, width=output.width(), colour=output.coloured()))
    return ANSWERED if reply.understood else NOT_UNDERSTOOD


def matter_of(path: Path) -> Matter:
    """Examine the files at `path`. Raises UnreadableEvidence."""
    diagnosis, dossier = examine([path])
    bundle = open_bundle([path])
    logs = FolderLogs({source.name: source.path for source in bundle.sources})
    return Matter(diagnosis, dossier, bundle.job, logs)
