"""Errors that no entry knows: the rank whose last words are like no other rank's, nor like any that were said before.

It proposes only where something else has shown that the job failed, and with a score that any better reason beats.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.own_errors import BY_TYPE
from knowledge.attribution.platform import state_of
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.fingerprint import normalise
from knowledge.reading.evidence import Place
from knowledge.reading.novelty import said_before, said_in

_TROUBLE = re.compile(
    r"(?i)error|fail|fatal|abort|panic|critical|except|invalid|illegal|corrupt|cannot|can't|could not|unable|refus|denied|reject"
    r"|mismatch|unexpected|giving up|gave up|lost|broken|stuck|exceed|expired|missing|not found|timed? ?out|bad |violat|unreachable"
)
_ADVICE = re.compile(r"(?i)warn|deprecat|\bhint\b|\bnote:|consider |set_to_none|please ")
_FATAL = re.compile(r"\b(?i:fatal|critical|uncaught|unhandled)\b.{0,80}?\b(?P<type>[A-Z]\w{2,60}(?:Error|Exception))\b")
_FAILED = ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "ERROR")
_OTHERS = 6  # files of other ranks in which the words are looked for


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """The one rank with words of its own, where most others' last words are like each other's."""
    if view.own or len(view.stories) < 3 or not _failed(view):
        return
    odd = [(rank, place) for rank, place in _odd_words(view) if _novel(view, rank, place)]
    telling = [(rank, place) for rank, place in odd if _TROUBLE.search(place.text) and not _ADVICE.search(place.text)]
    ranks = sorted({rank for rank, _ in telling})
    blameless = [rank for rank in ranks if rank not in view.waiting and rank not in view.bereft]
    ranks = blameless or ranks
    if len(ranks) != 1:
        return
    rank = ranks[0]
    proofs = [Proof(place, Role.ROOT) for speaker, place in telling if speaker == rank][:2]
    raised = next((found for proof in proofs if (found := _FATAL.search(proof.place.text))), None)
    if raised and blameless:
        yield Hypothesis(
            cause=BY_TYPE.get(raised["type"], "app-exception"), score=0.76, ranks=ranks, hosts=view.hosts_of(ranks), proofs=proofs,
            reason="its last words, unlike any other rank's, call an exception fatal",
        )  # fmt: skip
    yield Hypothesis(
        cause="unknown", score=0.58 if blameless else 0.48 if _pointed(view) else 0.56, ranks=ranks, hosts=view.hosts_of(ranks), proofs=proofs,
        reason="its last words are like no other rank's, and nothing like them was said before",
        missing=[f"What the line means: no entry of the catalogue knows it. Look at what rank {rank} did when it wrote it."],
    )  # fmt: skip


def _failed(view: CaseView) -> bool:
    """Whether it is known already that the job failed: odd words alone do not make it so."""
    if view.waiting or view.bereft or view.case.job.exit_code or state_of(view) in _FAILED:
        return True
    return any(ended.code != 0 for ended in view.exits.values())


def _pointed(view: CaseView) -> bool:
    """Whether ranks that lost a peer tell which host it was on."""
    lost = [hit.captures for hits in view.bereft.values() for hit in hits]
    named = {peer for said in lost if (peer := said.get("peer") or said.get("host"))}
    return any("peer_rank" in said for said in lost) or any(
        view.case.addresses.get(peer, peer) in view.hosts for peer in named
    )


def _odd_words(view: CaseView) -> Iterator[tuple[int, Place]]:
    """Last words that one rank alone has. Nothing where ranks have little in common anyway."""
    words = {rank: _by_form(story.words) for rank, story in view.stories.items() if story.words}
    speakers = Counter(form for forms in words.values() for form in forms)
    alike = [rank for rank, forms in words.items() if all(speakers[form] > 1 for form in forms)]
    if len(words) > 2 and len(alike) * 2 < len(words):
        return
    for rank, forms in words.items():
        for form, place in forms.items():
            if speakers[form] == 1 and _may_begin(view, rank, place):
                yield rank, place


def _by_form(places: list[Place]) -> dict[str, Place]:
    return {normalise(place.text): place for place in places}


def _may_begin(view: CaseView, rank: int, place: Place) -> bool:
    """Whether the rank made no progress after these words, and had said nothing that the catalogue knows before them."""
    story = view.stories[rank]
    progress = story.last_progress
    if progress is not None and progress.source == place.source and progress.order > place.order:
        return False
    return not any(hit.place.source == place.source and hit.place.order < place.order for hit in story.hits)


def _novel(view: CaseView, rank: int, place: Place) -> bool:
    """Whether nothing like these words was said while training went well, by this rank or by others."""
    text = place.text
    progress = view.stories[rank].last_progress
    if progress is not None and progress.source == place.source and said_before(place, text, progress.line):
        return False
    others = {
        story.last.source
        for other, story in view.stories.items()
        if other != rank and story.last is not None and story.last.source != place.source
    }
    return not any(said_in(source, text) for source in sorted(others, key=lambda source: source.name)[:_OTHERS])
