"""Every log's account: what it is, whose, how large, and from when to when it reaches."""

from __future__ import annotations

from datetime import datetime

from knowledge.accounts.ends import read_ends
from knowledge.accounts.quoting import moment
from knowledge.attribution.view import CaseView
from knowledge.dossier import MAX_SOURCES, SourceAccount
from knowledge.reading.bundle import Source
from knowledge.reading.clocks import parse_time
from knowledge.reading.evidence import Place
from knowledge.reading.text import clean

MAX_RANKS_OF_SOURCE = 16
_END = 4 << 10  # bytes at either end of a file in which a time is looked for
_LINES = 24  # lines of them


def account_for_sources(view: CaseView) -> list[SourceAccount]:
    """Accounts in the order of the files, those of flight recorders last. Raises UnreadableEvidence."""
    speakers = _speakers(view)
    accounts = [_account(view, source, speakers.get(source, {})) for source in view.case.sources[:MAX_SOURCES]]
    for source, dump in view.case.dumps[: MAX_SOURCES - len(accounts)]:
        size = source.path.stat().st_size
        accounts.append(SourceAccount(name=source.name, kind="flight-recorder", ranks=[dump.rank], bytes=size))
    return accounts


def _speakers(view: CaseView) -> dict[Source, dict[int, list[Place]]]:
    """Who wrote into which file, with the first and last lines that were kept."""
    found: dict[Source, dict[int, list[Place]]] = {}
    for rank, story in view.stories.items():
        for place in (story.first, story.last_progress, story.last):
            if place is not None:
                found.setdefault(place.source, {}).setdefault(rank, []).append(place)
        for hit in story.hits[:2]:
            found.setdefault(hit.place.source, {}).setdefault(rank, [])
    return found


def _account(view: CaseView, source: Source, speakers: dict[int, list[Place]]) -> SourceAccount:
    ranks = sorted({*speakers, *([source.rank] if source.rank is not None else [])})
    account = SourceAccount(
        name=source.name,
        kind=source.kind.value if source.kind else "unknown",
        ranks=ranks[:MAX_RANKS_OF_SOURCE],
        host=source.host or (view.host_of(ranks[0]) if len(ranks) == 1 else None),
        bytes=source.path.stat().st_size,
    )
    times = [place.seconds for place in speakers.get(source.rank, [])] if source.rank is not None else []
    known = [seconds for seconds in times if seconds is not None]
    if len(known) > 1:  # one rank's own file, of which reading has kept both ends
        account.first, account.last = moment(min(known)), moment(max(known))
    else:
        account.first, account.last = _ends(view, source)
    return account


def _ends(view: CaseView, source: Source) -> tuple[datetime | None, datetime | None]:
    """The times of the first and last lines that have one; the last of a packed file is not looked for."""
    job = view.case.job
    when = job.started_at or job.ended_at or moment(source.path.stat().st_mtime)
    year = when.year if when else 1970
    parts = read_ends(source, _END, _END)
    last = parts[-1][1].split(b"\n")[: -_LINES - 1 : -1]
    return _first_time(parts[0][1].split(b"\n")[:_LINES], year), _first_time(last, year)


def _first_time(lines: list[bytes], year: int) -> datetime | None:
    for raw in lines:
        found = parse_time(clean(raw), year)
        if found is not None:
            return moment(found.seconds)
    return None
