"""How pods' containers ended: init containers and sidecars that failed, and pods of which only an exit code is left."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.attribution.endings import cause_of_code, describe, pod_logs
from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Ended, Place, Pod
from knowledge.reading.pods import began_at, first_of, is_torn_down

_NO_SIGNAL = {126: "launch-failed", 127: "launch-failed"}
_BY_REASON = {
    "OOMKilled": "host-oom",
    "ContainerCannotRun": "pod-config",
    "StartError": "pod-config",
    "RunContainerError": "pod-config",
}
_STOPPED = (0, -15)
_MOST_NAMED = 4


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each way in which init containers failed, and one for each in which pods ended."""
    yield from _init_containers(view)
    yield from _asides(view)
    yield from _pods(view)


def _init_containers(view: CaseView) -> Iterator[Hypothesis]:
    groups: dict[tuple[str, str, int], list[tuple[Pod, Ended]]] = {}
    pods = list(view.case.pods.values())
    for pod in pods:
        if (ended := pod.failed_init) and ended.code != -15:
            cause = _BY_REASON.get(ended.reason) or _NO_SIGNAL.get(ended.code) or "init-failed"
            groups.setdefault((cause, ended.container, ended.code), []).append((pod, ended))
    for (cause, container, code), found in groups.items():
        everywhere = len(found) > 1 and len(found) == len(pods)
        ranks = [] if everywhere else sorted({rank for pod, _ in found for rank in view.ranks_on(pod.name)})
        hosts = [] if everywhere else list(dict.fromkeys(pod.host for pod, _ in found))
        who = f"all {len(found)} pods" if everywhere else _named([pod.name for pod, _ in found])
        reason = found[0][1].reason
        how = describe(code) + (f" ({reason})" if reason not in ("", "Error") else "")
        words = [place for pod, _ in found for place in _last_words(view, pod, container)]
        tell = f"What the init container said: `kubectl logs {found[0][0].name} -c {container}`."
        yield Hypothesis(
            cause=cause, score=0.8 if cause == "init-failed" else 0.85, ranks=ranks, hosts=hosts, whole_job=everywhere,
            reason=f"its init container {container} ended with {describe(code)}, so that nothing else of the pod was started",
            said=f"Init container {container} of {who} ended with {how}; what trains was never started there.",
            proofs=[Proof(place, Role.ROOT) for place in [*words[-2:], *(ended.place for _, ended in found[:2])]],
            missing=[tell] if cause == "init-failed" and not words else [],
        )  # fmt: skip


def _last_words(view: CaseView, pod: Pod, container: str) -> list[Place]:
    """The last lines of an init container's own log."""
    return [
        place
        for name, places in sorted(view.case.words.items())
        if pod.name in name and container in name.replace(pod.name, "")
        for place in places
    ]


def _asides(view: CaseView) -> Iterator[Hypothesis]:
    """Containers that failed their pod although the one that trains ended well: to Kubernetes the whole pod failed."""
    found = [(pod, ended) for pod in view.case.pods.values() if (ended := pod.failed_aside)]
    if not found:
        return
    (pod, ended), container = found[0], found[0][1].container
    yield Hypothesis(
        cause="sidecar-failed", score=0.8, whole_job=len(found) > 1,
        ranks=[] if len(found) > 1 else view.ranks_on(pod.name), hosts=[] if len(found) > 1 else [pod.host],
        reason=f"the container that trains ended well, and {container} beside it with {describe(ended.code)}",
        said=f"Training ended well; container {container} beside it in {_named([each.name for each, _ in found])} ended with "
        f"{describe(ended.code)}, for which Kubernetes calls the pod failed.",
        proofs=[Proof(each.place, Role.ROOT) for _, each in found[:2]],
    )  # fmt: skip


def _pods(view: CaseView) -> Iterator[Hypothesis]:
    """Pods that hold several ranks, or nobody knows which: how the container that trains ended."""
    pods = [pod for pod in view.case.pods.values() if _open(view, pod)]
    first, since = first_of(view.case.pods.values()), began_at(view.case.pods.values())
    groups: dict[int, list[tuple[Pod, Ended]]] = {}
    for pod in pods:
        ended = pod.ended
        if ended is None or ended.code in _STOPPED or is_torn_down(ended, since):
            continue
        if ended.code != 1 or pod is first:
            groups.setdefault(ended.code, []).append((pod, ended))
    for code, found in groups.items():
        began = [each for each in found if each[0] is first]
        lead = began or found
        everywhere = len(lead) > 1 and len(lead) >= 0.75 * len(view.case.pods)
        cause = _BY_REASON.get(lead[0][1].reason) or _NO_SIGNAL.get(code) or cause_of_code(code)
        ranks = [] if everywhere else sorted({rank for pod, _ in lead for rank in pod.ranks or ()})
        score = 0.3 if code == 1 else 0.7 if len(lead) == 1 else 0.5
        yield Hypothesis(
            cause=cause, score=0.4 if everywhere else score, whole_job=everywhere,
            ranks=ranks, missing=pod_logs(view, ranks),
            hosts=[] if everywhere else list(dict.fromkeys(pod.host for pod, _ in lead)),
            reason=f"the pod's container ended with {describe(code)}" + (", before all others" if began else ""),
            proofs=[Proof(ended.place, Role.ROOT) for _, ended in lead[:2]],
        )  # fmt: skip


def _open(view: CaseView, pod: Pod) -> bool:
    """Whether nothing is known of the pod's ranks that tells more than its exit code."""
    if pod.ranks is not None and len(pod.ranks) == 1:
        return False  # its exit is the rank's
    ranks = pod.ranks or view.ranks_on(pod.name)
    return not any(rank in known for rank in ranks for known in (view.own, view.exits, view.waiting, view.bereft))


def _named(pods: list[str]) -> str:
    if len(pods) == 1:
        return f"pod {pods[0]}"
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    return f"pods {', '.join(sorted(pods)[:_MOST_NAMED])}{more}"
