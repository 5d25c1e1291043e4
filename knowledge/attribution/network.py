"""Peers named by peers, and hosts whose network differs from the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.signature import Says, SignatureRole

_DEVICE = re.compile(r":\d+:\d+ \[(?P<device>\d+)\] ")


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """Local siblings named by a rank, then hosts."""
    yield from _siblings(view)
    yield from _arrows(view)


def _siblings(view: CaseView) -> Iterator[Hypothesis]:
    """NCCL's proxy names a sibling by its local rank: counted from the rank that wrote the line."""
    for hit in view.case.hits:
        local, rank = hit.number("local_rank"), hit.place.rank
        device = _DEVICE.search(hit.place.text)
        if local is None or rank is None or device is None or hit.signature.role is not SignatureRole.CASCADE:
            continue
        sibling = rank - int(device["device"]) + local
        host = view.host_of(rank)
        if sibling != rank and sibling >= 0 and sibling not in view.stories:
            yield Hypothesis(
                cause="peer-lost", score=0.58, reason="a rank of the same host names it by its local rank", ranks=[sibling],
                hosts=[host] if host else [], proofs=[Proof(hit.place, Role.CASCADE, hit.signature.id)],
                missing=[f"What happened to rank {sibling}: its own output and the kernel log of {host or 'its host'}."],
            )  # fmt: skip
            return


def _arrows(view: CaseView) -> Iterator[Hypothesis]:
    """Follow "peer is gone" arrows to the host where they end."""
    arrows: Counter[tuple[str, str]] = Counter()
    proofs: dict[str, Hit] = {}
    for hit in view.case.hits:
        if Says.PEER_GONE not in hit.signature.says:
            continue
        reporter = hit.place.host or (view.host_of(hit.place.rank) if hit.place.rank is not None else None)
        target = _host(view, hit)
        if reporter and target and target != reporter:
            arrows[reporter, target] += 1
            proofs.setdefault(target, hit)
    if not arrows or len(view.hosts) < 2:
        return
    reporters = {reporter for reporter, _ in arrows}
    targets = Counter(target for _, target in arrows)
    sinks = [target for target in targets if target not in reporters] or [targets.most_common(1)[0][0]]
    if len(sinks) != 1:
        return
    sink = sinks[0]
    alone = sink not in reporters
    local = view.ranks_on(sink)
    quiet = [rank for rank in local if rank not in view.waiting and rank not in view.bereft]
    lead = proofs[sink]
    yield Hypothesis(
        cause="peer-lost", score=0.55 if alone else 0.35,
        reason="the other hosts lost their connection to it, and it blames nobody",
        ranks=quiet if len(quiet) == 1 else local if alone else [], hosts=[sink] if alone else [],
        proofs=[Proof(lead.place, Role.CASCADE, lead.signature.id)], signature=lead.signature, captures=lead.captures,
        missing=[f"What happened on {sink}: its kernel log and the output of its ranks."],
    )  # fmt: skip


def _host(view: CaseView, hit: Hit) -> str | None:
    """The host that a line points at, resolved from an address where start-up lines tell it."""
    peer = hit.captures.get("peer") or hit.captures.get("host")
    if peer is None:
        rank = hit.number("peer_rank")
        return view.host_of(rank) if rank is not None else None
    peer = peer.strip("[]")
    if peer.startswith("127.") or peer in ("::1", "localhost"):
        return None
    return view.case.addresses.get(peer, peer)
