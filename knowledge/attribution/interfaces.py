"""Start-up that never came to a first collective: hosts on the wrong interface, or pairs that cannot connect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit

_VIRTUAL = re.compile(r"^(?:docker|virbr|br-|veth|cni|flannel|cali|tailscale|lo$|usb|tun|tap|wg|vmnet|kube)")
_MANAGEMENT = re.compile(r"^(?:eno|em\d|idrac|bmc)")
_UNROUTABLE = ("169.254.", "127.", "172.17.", "192.168.122.")


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """Only for jobs that never made a step."""
    if view.pulse.count:
        return
    yield from _no_address(view)
    if not (view.waiting or view.bereft):
        return
    yield from _wrong_interface(view)
    yield from _blocked(view)


def _no_address(view: CaseView) -> Iterator[Hypothesis]:
    """Ranks say that they offer each other an address that only their own host can reach, and then cannot connect."""
    hits = [hit for hit in view.case.hits if hit.place.attempt == view.attempt]
    own = [hit for hit in hits if hit.signature.id == "gloo-loopback-fallback"]
    failed = [
        hit for hit in hits if "wrong-interface" in hit.signature.explained_by and hit.signature.cause == "peer-lost"
    ]
    if not own or not failed or len(view.hosts) == 1:
        return
    yield Hypothesis(
        cause="wrong-interface", score=0.86, whole_job=True,
        reason="ranks offer each other the loopback address, and none could connect to another",
        proofs=[
            *(Proof(hit.place, Role.ROOT, hit.signature.id) for hit in own[:2]),
            *(Proof(hit.place, Role.CASCADE, hit.signature.id) for hit in failed[:1]),
        ],
        signature=own[0].signature, captures=own[0].captures,
    )  # fmt: skip


def _subnet(address: str) -> str:
    return address.rsplit(".", 2)[0]


def _doubt(interface: str, address: str) -> int:
    """How unlikely it is that an interface carries training traffic."""
    doubt = 3 if _VIRTUAL.match(interface) or address.startswith(_UNROUTABLE) else 0
    doubt += 1 if _MANAGEMENT.match(interface) else 0
    return doubt + (1 if address.startswith("192.168.") else 0)


def _wrong_interface(view: CaseView) -> Iterator[Hypothesis]:
    used = view.case.interfaces
    if len(used) < 2 or len({_subnet(address) for _, address in used.values()}) < 2:
        return
    doubts = {host: _doubt(*found) for host, found in used.items()}
    worst = max(doubts.values())
    odd = [host for host, doubt in doubts.items() if doubt == worst] if worst else []
    if not odd or len(odd) == len(used):
        subnets = Counter(_subnet(address) for _, address in used.values())
        usual = subnets.most_common(1)[0]
        odd = [host for host, (_, address) in used.items() if _subnet(address) != usual[0]] if usual[1] > 1 else []
    lines = [hit for hit in view.case.hits if "interface" in hit.captures]
    proofs = [
        Proof(hit.place, Role.ROOT, hit.signature.id) for host in odd[:1] for hit in lines if hit.place.host == host
    ][:1]
    proofs += [Proof(hit.place, Role.CONTEXT, hit.signature.id) for hit in lines if hit.place.host not in odd][:1]
    yield Hypothesis(
        cause="wrong-interface", score=0.93 if odd else 0.8,
        reason="hosts use interfaces in different networks, and no collective ever completed",
        ranks=[rank for host in odd for rank in view.ranks_on(host)], hosts=odd, proofs=proofs,
        captures={"interface": used[odd[0]][0]} if odd else {},
    )  # fmt: skip


def _blocked(view: CaseView) -> Iterator[Hypothesis]:
    """Connections that fail between some hosts although all use the same network."""
    failed: dict[tuple[str, str], Hit] = {}
    for hit in view.case.hits:
        peer = hit.captures.get("peer")
        if (
            not peer
            or peer.startswith("127.")
            or hit.signature.cause not in ("connection-blocked", "master-unreachable")
        ):
            continue
        reporter = hit.place.host
        if reporter is None:
            continue  # whether other hosts can connect is not known then
        failed.setdefault((reporter, view.case.addresses.get(peer, peer)), hit)
    if not failed:
        return
    hosts = list(dict.fromkeys(host for pair in failed for host in pair if host))
    lead = next(iter(failed.values()))
    yield Hypothesis(
        cause="connection-blocked", score=0.86 if len(failed) == 1 else 0.75,
        reason="these hosts cannot connect to each other, the other pairs can", hosts=hosts if len(failed) == 1 else [],
        proofs=[Proof(hit.place, Role.ROOT, hit.signature.id) for hit in list(failed.values())[:2]], signature=lead.signature,
        captures=lead.captures,
    )  # fmt: skip
