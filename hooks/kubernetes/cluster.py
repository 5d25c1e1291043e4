"""What the watcher has seen of the cluster: workloads, their pods, and who owns whom."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hooks.kubernetes.api import Object
from hooks.kubernetes.ending import LABEL
from hooks.kubernetes.kinds import BY_OWNER, KINDS, Kind, attempt_of, inside

_GHOST_SECONDS = 1800.0  # for which what was deleted is remembered
_RESTART = "jobset.sigs.k8s.io/restart-attempt"
_SELECTING = frozenset(kind.selector.partition("=")[0] for kind in KINDS if kind.selector)
_MADE_BETWEEN = frozenset({("ray.io", "RayCluster")})  # owns pods, and is owned


@dataclass(slots=True)
class Workload:
    """One workload as last seen."""

    kind: Kind
    item: Object

    @property
    def uid(self) -> str:
        """Its id, which no other ever has."""
        return str(self.item["metadata"]["uid"])

    @property
    def namespace(self) -> str:
        """Where it lives."""
        return str(self.item["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Its name, which another may have had before."""
        return str(self.item["metadata"]["name"])

    @property
    def attempt(self) -> int:
        """How often it was started again."""
        return attempt_of(self.kind, self.item)

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.kind.kind} {self.namespace}/{self.name}"


@dataclass
class Cluster:
    """Everything seen, each object as last seen, for half an hour after its deletion."""

    kinds: set[tuple[str, str]] = field(default_factory=set)  # group and kind of what is watched
    workloads: dict[str, Workload] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    _by_label: dict[tuple[str, str, str], dict[str, None]] = field(default_factory=dict)  # → uids of pods
    _by_selector: dict[tuple[str, str, str], dict[str, None]] = field(default_factory=dict)  # → uids of workloads
    _selectors: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    _children: dict[str, dict[str, None]] = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)  # uid → when

    def put(self, workload: Workload) -> None:
        """Take note of a workload as it is now."""
        uid = workload.uid
        self.workloads[uid] = workload
        owner = owner_of(workload.item)
        if owner:
            self._children.setdefault(str(owner.get("uid")), {})[uid] = None
        selector = _selector(workload)
        if selector and self._selectors.get(uid) != selector:
            self._drop_selector(uid)
            self._selectors[uid] = selector
            self._by_selector.setdefault(selector, {})[uid] = None

    def put_pod(self, pod: Object) -> Object | None:
        """Take note of a pod as it is now, if it may be a workload's; return it as it was before."""
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        owner = owner_of(pod)
        known = owner and _group_and_kind(owner) in self.kinds | _MADE_BETWEEN
        if not known and LABEL not in labels and not _SELECTING & labels.keys():
            return None
        before = self.pods.get(metadata["uid"])
        self.pods[metadata["uid"]] = pod
        for key in _SELECTING & labels.keys():
            self._by_label.setdefault((metadata["namespace"], key, labels[key]), {})[metadata["uid"]] = None
        return before

    def forget_later(self, uid: str) -> None:
        """Take note that an object was deleted."""
        if uid in self.workloads or uid in self.pods:
            self._gone.setdefault(uid, time.monotonic())

    def is_gone(self, uid: str) -> bool:
        """Whether it was deleted."""
        return uid in self._gone

    def expire(self) -> None:
        """Forget what was deleted half an hour ago."""
        until = time.monotonic() - _GHOST_SECONDS
        for uid in [uid for uid, when in self._gone.items() if when < until]:
            del self._gone[uid]
            if pod := self.pods.pop(uid, None):
                metadata = pod["metadata"]
                for key, value in (metadata.get("labels") or {}).items():
                    _discard(self._by_label, (metadata["namespace"], key, value), uid)
            if workload := self.workloads.pop(uid, None):
                self._drop_selector(uid)
                self._children.pop(uid, None)
                _discard(self._children, str((owner_of(workload.item) or {}).get("uid")), uid)

    def is_top(self, item: Object) -> bool:
        """Whether nobody that is watched owns it: then its own word counts."""
        owner = owner_of(item)
        return owner is None or _group_and_kind(owner) not in self.kinds | _MADE_BETWEEN

    def family(self, workload: Workload) -> list[Workload]:
        """A workload and everything it made, the workload first."""
        found, asked = [workload], {workload.uid}
        for each in found:
            for uid in self._children.get(each.uid, ()):
                if uid in self.workloads and uid not in asked:
                    asked.add(uid)
                    found.append(self.workloads[uid])
        return found

    def pods_of(self, workload: Workload) -> list[Object]:
        """The pods of a workload and of everything it made, of its present attempt."""
        if workload.kind.kind == "Pod":
            return [self.pods.get(workload.uid, workload.item)]
        uids: dict[str, None] = {}
        for each in self.family(workload):
            selector = _selector(each)
            if selector:
                uids.update(self._by_label.get(selector, {}))
        pods = [self.pods[uid] for uid in uids if uid in self.pods]
        now = [pod for pod in pods if _is_of_attempt(pod, workload.attempt)]
        return now if workload.attempt and now else pods

    def workload_of(self, pod: Object) -> Workload | None:
        """The topmost workload that a pod belongs to."""
        metadata = pod["metadata"]
        if metadata["uid"] in self.workloads:
            return self.workloads[metadata["uid"]]
        tops = list(self._tops(metadata["namespace"], (metadata.get("labels") or {}).items()))
        return tops[0] if tops else None

    def _tops(self, namespace: str, labels: Iterable[tuple[str, str]]) -> Iterator[Workload]:
        for key, value in labels:
            for uid in self._by_selector.get((namespace, key, value), ()):
                workload = self.workloads[uid]
                for _ in range(6):
                    owner = owner_of(workload.item)
                    above = self.workloads.get(str(owner.get("uid"))) if owner else None
                    if above is None:
                        break
                    workload = above
                if self.is_top(workload.item):
                    yield workload

    def _drop_selector(self, uid: str) -> None:
        selector = self._selectors.pop(uid, None)
        if selector:
            _discard(self._by_selector, selector, uid)


def owner_of(item: Object) -> Object | None:
    """The reference to the controller that made an object."""
    for owner in item.get("metadata", {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def kind_names(kind: Kind) -> tuple[str, str]:
    """A kind's group and name, as references to owners give them."""
    return next(names for names, row in BY_OWNER.items() if row is kind)


def _group_and_kind(owner: Object) -> tuple[str, str]:
    group, slash, _ = str(owner.get("apiVersion")).partition("/")
    return (group if slash else ""), str(owner.get("kind"))


def _selector(workload: Workload) -> tuple[str, str, str] | None:
    if not workload.kind.selector:
        return None
    key, _, value = workload.kind.pods(workload.item).partition("=")
    return (workload.namespace, key, value) if value else None


def _is_of_attempt(pod: Object, attempt: int) -> bool:
    told = inside(pod, "metadata", "labels", _RESTART)
    return told is None or told == str(attempt)


def _discard(
    index: dict[str, dict[str, None]] | dict[tuple[str, str, str], dict[str, None]], key: object, uid: str
) -> None:
    found = index.get(key)  # type: ignore[call-overload]
    if found is not None:
        found.pop(uid, None)
        if not found:
            del index[key]  # type: ignore[arg-type]
