"""Why it failed and why this rank; what happened first, and then."""

from __future__ import annotations

from datetime import timedelta

from bot.answers.asked import Asked, of_timeline, telling_lines, unique
from bot.answers.reply import Line, Quotes, Reply, Words, of_evidence
from bot.slack import phrases
from knowledge.diagnosis import Evidence, Role
from knowledge.dossier import Part, RankAccount

_SHOWN = 14  # lines of the timeline
_NEAR = timedelta(minutes=3)
_SPAN = 6  # log lines before and after a moment

_PARTS = {
    Part.COLLATERAL: "only followed",
    Part.SILENT: "is silent: nothing of it has arrived",
    Part.OTHER: "is not known to have failed by itself",
}


async def why(asked: Asked) -> Reply:
    """The verdict and the lines that prove it; for another rank or host, what part it plays."""
    diagnosis = asked.diagnosis
    opening = [asked.verdict(), diagnosis.cause.summary]
    aside = _asides(asked)
    if asked.failed:
        opening.append(phrases.collateral(asked.matter.job, diagnosis))
        if not phrases.where(diagnosis.initiating):
            opening.append("No single rank can be named.")
        opening.append(f"{phrases.certainty(diagnosis)}.")
    proofs = asked.proofs()
    followers = [of_evidence(line) for line in diagnosis.evidence if line.role is Role.CASCADE]
    others = unique([line for line in followers if line not in proofs])[:2]
    return asked.reply(
        Words(aside) if aside else None,
        Words(" ".join(part for part in opening if part)),
        Quotes(proofs, "What proves it") if proofs else None,
        Quotes(_of_others(asked), "What they said themselves") if aside and _of_others(asked) else None,
        Quotes(others, "What others said, who only followed") if others else None,
        Words(f"To be surer: {diagnosis.missing[0]}") if diagnosis.missing else None,
    )


def _asides(asked: Asked) -> str:
    """About ranks and hosts that were asked for and did not begin it."""
    told = []
    began = asked.diagnosis.initiating
    for rank in asked.slots.ranks[:4]:
        account = asked.matter.account(rank)
        if rank in began.ranks:
            told.append(f"Rank {rank} began it.")
        elif rank not in asked.matter.ranks:
            told.append(f"There is no rank {rank} in what has arrived.")
        elif account is not None and asked.failed:
            told.append(f"Rank {rank} {_PARTS.get(account.part, 'is not the one that began it')}.")
    for host in asked.slots.hosts[:4]:
        if host in began.hosts:
            told.append(f"{host} is where it began.")
        elif asked.failed:
            told.append(f"{host} is not where it began.")
    return " ".join(told)


def _of_others(asked: Asked) -> tuple[Line, ...]:
    accounts = [
        asked.matter.account(rank) for rank in asked.slots.ranks if rank not in asked.diagnosis.initiating.ranks
    ]
    return telling_lines([account for account in accounts if isinstance(account, RankAccount)], 3)


async def timeline(asked: Asked) -> Reply:
    """The lines that mark what happened, first to last; round a moment, those near it."""
    dossier = asked.matter.dossier
    moment = asked.slots.moment(asked.end)
    note = Words(dossier.omitted) if dossier.omitted and "clock" in dossier.omitted else None
    if moment is not None:
        near = [line for line in dossier.timeline if line.time and abs(line.time - moment) <= _NEAR]
        lines = await _log_at(asked)
        opening = f"Around {moment:%H:%M:%S}:" if near or lines else f"No line is known from around {moment:%H:%M:%S}."
        return asked.reply(
            Words(opening),
            Quotes(of_timeline(near[:_SHOWN]), "Events") if near else None,
            Quotes(tuple(lines), "The log", run=True) if lines else None,
            Words(f"{asked.verdict()}"),
            note,
        )
    events = _chosen(dossier.timeline)
    if not events:
        return asked.reply(Words(f"{asked.verdict()} No line marks when things happened."), Quotes(asked.proofs()))
    began = next((line for line in dossier.timeline if line.role is Role.ROOT), None)
    told = [asked.verdict()]
    if began is not None and asked.failed:
        when = f" at {began.time:%H:%M:%S}" if began.time else ""
        told.append(f"The first line that tells of it is {began.source}:{began.line}{when}.")
    return asked.reply(
        Words(" ".join(told)),
        Quotes(of_timeline(events), "First to last", folded=len(dossier.timeline) - len(events)),
        note,
    )


def _chosen(events: list[Evidence]) -> list[Evidence]:
    """Those that fit, the telling ones before the others, in their order."""
    weights = {Role.ROOT: 0, Role.CONFIRMATION: 2, Role.CASCADE: 2, Role.CONTEXT: 3}
    seen: set[str] = set()
    keyed = []
    for number, event in enumerate(events):
        again = event.signature is not None and event.signature in seen
        seen.add(event.signature or "")
        edge = number == 0 or number == len(events) - 1
        keyed.append((0 if edge else weights[event.role] + again, number))
    kept = sorted(number for _, number in sorted(keyed)[:_SHOWN])
    return [events[number] for number in kept]


async def _log_at(asked: Asked) -> list[Line]:
    """The log of whom the question is about, or of who began it, round the moment."""
    moment, logs = asked.slots.moment(asked.end), asked.matter.logs
    if moment is None or logs is None:
        return []
    name = log_of(asked, next(iter(asked.slots.ranks or asked.diagnosis.initiating.ranks), None))
    return await logs.at(name, moment, _SPAN) if name else []


def log_of(asked: Asked, rank: int | None) -> str | None:
    """The log that holds a rank's lines; None: the one that the strongest proof stands in."""
    if rank is None:
        proofs = asked.proofs(1)
        return proofs[0].source if proofs else None
    account = asked.matter.account(rank)
    own = [source for source in asked.matter.dossier.sources if source.ranks == [rank] and source.kind == "rank"]
    if account is not None:
        for said in (account.last, account.telling):
            if said is not None:
                return said.source
    if own:
        return max(own, key=lambda source: source.bytes).name
    return next((source.name for source in asked.matter.dossier.sources if rank in source.ranks), None)
