"""What happened, first to last: the lines that mark it, by one clock as far as clocks can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, isinf

from knowledge.accounts.quoting import SMALL, Quoting, moment
from knowledge.attribution.clocks import Clocks, estimate
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Diagnosis, Evidence, Role
from knowledge.dossier import MAX_TIMELINE
from knowledge.reading.bundle import Source
from knowledge.reading.clocks import parse_time
from knowledge.reading.evidence import Hit, Place
from knowledge.reading.text import clean
from knowledge.signature import SignatureRole

_OF_A_KIND = 3  # lines of one entry, of one role, that are told
_EXITS = 8
_CLOCKS = 4  # hosts named whose clocks cannot be compared
_NEXT = 1e-6  # seconds by which a line is taken to follow the one before it
_FEW = 64  # ranks all of which are asked for their clocks
_OF_A_HOST = 2  # of more, those that are
_FILES = 16  # in which stamped lines are looked for above those without
_ABOVE = 200  # lines above that are looked at

_ROLES = {
    SignatureRole.ROOT: Role.CONTEXT,
    SignatureRole.CASCADE: Role.CASCADE,
    SignatureRole.CONFIRMATION: Role.CONFIRMATION,
}
_WEIGHT = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CONTEXT: 2, Role.CASCADE: 3}


@dataclass(slots=True)
class _Event:
    place: Place
    role: Role
    signature: str | None = None

    @property
    def at(self) -> tuple[str, int]:
        return self.place.source.name, self.place.order


def tell_timeline(view: CaseView, diagnosis: Diagnosis, quoting: Quoting) -> tuple[list[Evidence], list[str]]:
    """The timeline, and the hosts whose clocks cannot be compared with the others'. Raises UnreadableEvidence."""
    events: dict[tuple[str, int], _Event] = {}
    for event in _events(view, diagnosis):
        events.setdefault(event.at, event)
    proofs = {(proof.source, proof.line): proof for proof in diagnosis.evidence}
    clocks = estimate(_sample(view, diagnosis), [event.place for event in events.values()])
    lines: list[tuple[Evidence, float | None]] = []
    for event in list(events.values())[:MAX_TIMELINE]:
        if not quoting.affords(event.place):
            continue
        told = _line(event, clocks.seconds(event.place))
        proof = proofs.pop((told.source, told.line), None)
        if proof is not None:
            told.role, told.signature = proof.role, proof.signature or told.signature
        lines.append((told, clocks.seconds(event.place)))
    lines += [(proof, proof.time.timestamp() if proof.time else None) for proof in proofs.values()]
    before = _stamps(quoting, clocks, [event.place for event in events.values()])
    return _ordered(lines, before)[:MAX_TIMELINE], _incomparable(clocks, events.values())


def _sample(view: CaseView, diagnosis: Diagnosis) -> CaseView:
    """The view of a few ranks of each host: they tell of its clock as well as all would."""
    if len(view.stories) <= _FEW:
        return view
    held: Counter[str | None] = Counter()
    stories = {}
    for rank, story in view.stories.items():
        host = view.host_of(rank)
        held[host] += 1
        if held[host] <= _OF_A_HOST or rank in diagnosis.initiating.ranks:
            stories[rank] = story
    return CaseView(view.case, view.attempt, stories, view.exits)


def _incomparable(clocks: Clocks, events: Iterable[_Event]) -> list[str]:
    """Hosts whose clocks cannot be compared with the one that most ranks write by."""
    timed = [event.place for event in events if event.place.seconds is not None]
    known = {clocks.of(place) for place in timed}
    unsure = {clock[0] for clock in known if len(known) > 1 and isinf(clocks.offsets[clock].doubt)}
    return sorted(filter(None, unsure))[:_CLOCKS]


def _events(view: CaseView, diagnosis: Diagnosis) -> Iterator[_Event]:
    """Those that matter most first, since the list is bounded."""
    began = diagnosis.initiating.ranks[:4]
    for rank in began:
        yield from (_Event(own.place, Role.CONTEXT, _named(own.hit)) for own in view.own.get(rank, [])[:4])
    told: Counter[tuple[str, Role]] = Counter()
    for hit in view.case.hits:
        role = _ROLES.get(hit.signature.role)
        if role is None or hit.place.attempt != view.attempt:
            continue
        told[hit.signature.id, role] += 1
        if told[hit.signature.id, role] <= _OF_A_KIND:
            yield _Event(hit.place, role, hit.signature.id)
    exits = sorted(view.case.exits, key=lambda found: (not found.first, found.code in (0, -15)))
    yield from (_Event(found.place, Role.CONTEXT) for found in exits[:_EXITS])
    for rank in [*began, *(rank for rank in view.ranks[:2] if rank not in began)]:
        story = view.stories.get(rank)
        for place in (story.first, story.last_progress, story.finished, story.last) if story else ():
            if place is not None:
                yield _Event(place, Role.CONTEXT)
    for own in sorted(view.unattributed, key=lambda own: own.seconds or inf)[:4]:
        yield _Event(own.place, Role.CONTEXT, _named(own.hit))
    if view.pulse.last is not None:
        yield _Event(view.pulse.last, Role.CONTEXT)


def _named(hit: Hit | None) -> str | None:
    return hit.signature.id if hit else None


def _line(event: _Event, seconds: float | None) -> Evidence:
    place = event.place
    return Evidence(
        source=place.source.name, line=place.line, rank=place.rank, host=place.host, time=moment(seconds),
        text=place.text, role=event.role, signature=event.signature,
    )  # fmt: skip


def _ordered(lines: list[tuple[Evidence, float | None]], before: dict[tuple[str, int], float]) -> list[Evidence]:
    """By time. A line without one stands behind the stamped line before it in its source, else before the consequences."""
    known = [seconds for _, seconds in lines if seconds is not None]
    cascade = [seconds for line, seconds in lines if seconds is not None and line.role is Role.CASCADE]
    middle = min(cascade, default=max(known, default=0.0))

    def when(line: Evidence, seconds: float | None) -> float:
        if seconds is not None:
            return seconds
        at = before.get((line.source, line.line))
        if at is None:
            return middle if line.role is not Role.CASCADE else inf
        return at + _NEXT * line.line

    keyed = [(when(line, seconds), _WEIGHT[line.role], line.source, line.line, line) for line, seconds in lines]
    return [entry[-1] for entry in sorted(keyed, key=lambda entry: entry[:-1])]


def _stamps(quoting: Quoting, clocks: Clocks, places: Iterable[Place]) -> dict[tuple[str, int], float]:
    """For lines without a time, that of the nearest stamped line above, in files that are small enough to look."""
    unstamped: dict[Source, list[Place]] = {}
    for place in places:
        if place.seconds is None and quoting.is_small(place.source):
            unstamped.setdefault(place.source, []).append(place)
    found: dict[tuple[str, int], float] = {}
    for source, wanted in list(unstamped.items())[:_FILES]:
        with source.open() as stream:
            raws = stream.read(SMALL).split(b"\n")
        for place in wanted:
            clock = clocks.of(place)[0]
            for raw in raws[max(0, place.line - _ABOVE) : place.line][::-1]:
                stamp = parse_time(clean(raw), place.year)
                if stamp is not None:
                    offset = clocks.offsets.get((clock, stamp.zoned))
                    found[source.name, place.line] = stamp.seconds - (offset.seconds if offset else 0.0)
                    break
    return found
