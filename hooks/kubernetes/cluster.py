"""What the watcher has seen of the cluster: workloads, their pods, and who owns whom."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from hooks.kubernetes.api import Object
from hooks.kubernetes.attempts import began_of, evictions_of, is_of_attempt, restarts_of
from hooks.kubernetes.ending import is_labelled
from hooks.kubernetes.kinds import BY_OWNER, KINDS, OTHER, Kind

_GHOST_SECONDS = 1800.0  # for which what was deleted is remembered
_SELECTING = frozenset(kind.selector.partition("=")[0] for kind in KINDS if kind.selector)
_KEPT = _SELECTING | {"kueue.x-k8s.io/managed"}
"""Labels of pods that may be a workload's, though nobody made them."""
_DEEPEST = 6  # owners above one another

_Index = dict[tuple[str, ...], dict[str, None]]


@dataclass(slots=True)
class Workload:
    """One workload as last seen. Of one that may not be read, only what its own say of it is known."""

    kind: Kind
    item: Object
    unread: bool = False

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
    def title(self) -> str:
        """For people."""
        return f"{self.kind.kind} {self.namespace}/{self.name}"


@dataclass
class Cluster:
    """Everything seen, each object as last seen, for half an hour after its deletion."""

    workloads: dict[str, Workload] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    _unreadable: set[tuple[Kind, str | None]] = field(default_factory=set)  # kind and namespace
    _pods_by_label: _Index = field(default_factory=dict)  # namespace, key and value → uids
    _pods_by_owner: _Index = field(default_factory=dict)
    _by_selector: _Index = field(default_factory=dict)  # → uids of workloads
    _selectors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _children: _Index = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)  # uid → when

    def may_read(self, kind: Kind, namespace: str | None, allowed: bool) -> bool:
        """Take note whether a kind can be read, in one namespace or in all; return whether this is news."""
        key = (kind, namespace)
        news = (key in self._unreadable) is allowed
        (self._unreadable.discard if allowed else self._unreadable.add)(key)
        return news

    def put(self, workload: Workload) -> None:
        """Take note of a workload as it is now."""
        uid = workload.uid
        self.workloads[uid] = workload
        owner = owner_of(workload.item)
        if owner:
            _add(self._children, (str(owner.get("uid")),), uid)
        selector = _selector(workload)
        if selector and self._selectors.get(uid) != selector:
            self._drop_selector(uid)
            self._selectors[uid] = selector
            _add(self._by_selector, selector, uid)

    def put_pod(self, pod: Object) -> Object | None:
        """Take note of a pod as it is now, if it may be a workload's; return it as it was before."""
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        owner = owner_of(pod)
        known = owner is not None and _group_and_kind(owner) in BY_OWNER
        if not known and not is_labelled(pod) and not _KEPT & labels.keys():
            return None
        before = self.pods.get(metadata["uid"])
        self.pods[metadata["uid"]] = pod
        for key in _SELECTING & labels.keys():
            _add(self._pods_by_label, (metadata["namespace"], key, labels[key]), metadata["uid"])
        if owner:
            _add(self._pods_by_owner, (str(owner.get("uid")),), metadata["uid"])
        return before

    def forget_later(self, uid: str) -> None:
        """Take note that an object was deleted."""
        if uid in self.workloads or uid in self.pods:
            self._gone.setdefault(uid, time.monotonic())

    def is_gone(self, uid: str) -> bool:
        """Whether it was deleted."""
        return uid in self._gone

    def expire(self) -> list[str]:
        """Forget what was deleted half an hour ago; return the uids of the pods among it."""
        until = time.monotonic() - _GHOST_SECONDS
        forgotten = []
        for uid in [uid for uid, when in self._gone.items() if when < until]:
            del self._gone[uid]
            if pod := self.pods.pop(uid, None):
                forgotten.append(uid)
                metadata = pod["metadata"]
                for key, value in (metadata.get("labels") or {}).items():
                    _discard(self._pods_by_label, (metadata["namespace"], key, value), uid)
                _discard(self._pods_by_owner, (str((owner_of(pod) or {}).get("uid")),), uid)
            if workload := self.workloads.pop(uid, None):
                self._drop_selector(uid)
                self._children.pop((uid,), None)
                _discard(self._children, (str((owner_of(workload.item) or {}).get("uid")),), uid)
        for uid in [uid for uid, workload in self.workloads.items() if workload.unread]:
            if (uid,) not in self._pods_by_owner and (uid,) not in self._children:
                self._drop_selector(uid)
                del self.workloads[uid]
        return forgotten

    def top_of(self, item: Object) -> Workload | None:
        """The topmost workload that a workload or pod belongs to, perhaps itself: its word counts.

        An owner of a kind that may not be read is passed over where a readable one further up claims the item by
        its labels; where none does, it stands for itself, without a word of its own.
        """
        found = self.workloads.get(str(item["metadata"]["uid"]))
        for _ in range(_DEEPEST):
            above = self._above(item)
            if above is None:
                break
            found, item = above, above.item
        else:
            return found
        owner = owner_of(item)
        waits = owner is not None and self._is_readable(owner, item) and BY_OWNER[_group_and_kind(owner)].kind != "Pod"
        return None if waits else found

    def family(self, workload: Workload) -> list[Workload]:
        """A workload and everything it made, the workload first."""
        found, asked = [workload], {workload.uid}
        for each in found:
            for uid in self._children.get((each.uid,), ()):
                if uid in self.workloads and uid not in asked:
                    asked.add(uid)
                    found.append(self.workloads[uid])
        return found

    def attempt_of(self, workload: Workload) -> int:
        """How often a workload was started again, from 0."""
        return self._restarts_of(workload, self._all_pods(workload)) + evictions_of(self._family_items(workload))

    def pods_of(self, workload: Workload) -> list[Object]:
        """The pods of a workload and of everything it made, of its present attempt."""
        pods = self._all_pods(workload)
        restarts, began = self._restarts_of(workload, pods), began_of(self._family_items(workload))
        return [pod for pod in pods if is_of_attempt(workload.kind, workload.item, pod, restarts, began)] or pods

    def earlier_pods_of(self, workload: Workload) -> list[Object]:
        """The pods of its attempts before, as far as they are remembered."""
        present = {pod["metadata"]["uid"] for pod in self.pods_of(workload)}
        return [pod for pod in self._all_pods(workload) if pod["metadata"]["uid"] not in present]

    def _restarts_of(self, workload: Workload, pods: list[Object]) -> int:
        return restarts_of(workload.kind, self._family_items(workload), pods)

    def _family_items(self, workload: Workload) -> list[tuple[Kind, Object]]:
        return [(each.kind, each.item) for each in self.family(workload)]

    def _all_pods(self, workload: Workload) -> list[Object]:
        if workload.kind.kind == "Pod":
            return [self.pods.get(workload.uid, workload.item)]
        owned: dict[str, None] = {}
        selected: dict[str, None] = {}
        for each in self.family(workload):
            owned.update(self._pods_by_owner.get((each.uid,), {}))
            if selector := _selector(each):
                selected.update(self._pods_by_label.get(selector, {}))
        if workload.kind.kind == "Workload":  # of a single pod, which owns it
            owned[str((owner_of(workload.item) or {}).get("uid"))] = None
        namesake = {uid for uid in selected if uid not in owned and self._is_of_namesake(uid, workload)}
        return [self.pods[uid] for uid in {**owned, **selected} if uid in self.pods and uid not in namesake]

    def _is_of_namesake(self, uid: str, workload: Workload) -> bool:
        """Whether a pod that bears a workload's name belongs to another that had the name before."""
        top = self.top_of(self.pods[uid]) if uid in self.pods else None
        return top is not None and top.kind is workload.kind and top.uid != workload.uid

    def _above(self, item: Object) -> Workload | None:
        owner = owner_of(item)
        if owner and str(owner.get("uid")) in self.workloads:
            return self.workloads[str(owner.get("uid"))]
        if owner and self._is_readable(owner, item):
            return None  # it will be seen, or is long gone
        claiming = self._claiming(item)
        if claiming or owner is None:
            return claiming
        kind = BY_OWNER.get(_group_and_kind(owner), OTHER)
        if kind.kind == "Pod" or (kind is OTHER and not (is_labelled(item) and self._is_pod(item))):
            return None
        return self._stand_in(kind, owner, item)

    def _is_pod(self, item: Object) -> bool:
        known = self.workloads.get(item["metadata"]["uid"])
        return item["metadata"]["uid"] in self.pods or (known is not None and known.kind.kind == "Pod")

    def _claiming(self, item: Object) -> Workload | None:
        """The workload whose selector an item's labels match; of several of one name, the one that is there."""
        metadata = item["metadata"]
        found = [
            self.workloads[uid]
            for key, value in (metadata.get("labels") or {}).items()
            for uid in self._by_selector.get((metadata["namespace"], key, value), ())
            if uid != metadata["uid"]
        ]
        return min(found, key=lambda each: self.is_gone(each.uid), default=None)

    def _is_readable(self, owner: Object, item: Object) -> bool:
        kind = BY_OWNER.get(_group_and_kind(owner))
        namespace = item["metadata"].get("namespace")
        return kind is not None and not {(kind, namespace), (kind, None)} & self._unreadable

    def _stand_in(self, kind: Kind, owner: Object, item: Object) -> Workload:
        metadata = {"name": owner.get("name"), "uid": owner.get("uid"), "namespace": item["metadata"]["namespace"]}
        workload = Workload(kind, {"kind": owner.get("kind"), "metadata": metadata}, unread=True)
        self.put(workload)
        return workload

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


def speaking(family: list[Workload]) -> Iterator[Workload]:
    """Those of a family that have a word of their own, and no text elsewhere."""
    return (each for each in family if each.kind.kind != "Pod" and not each.unread)


def _group_and_kind(owner: Object) -> tuple[str, str]:
    group, slash, _ = str(owner.get("apiVersion", "")).partition("/")
    return (group if slash else "", str(owner.get("kind")))


def _selector(workload: Workload) -> tuple[str, ...] | None:
    key, equals, value = workload.kind.pods(workload.item).partition("=")
    return (workload.namespace, key, value) if equals and value else None


def _add(index: _Index, key: tuple[str, ...], uid: str) -> None:
    index.setdefault(key, {})[uid] = None


def _discard(index: _Index, key: tuple[str, ...], uid: str) -> None:
    found = index.get(key)
    if found is not None:
        found.pop(uid, None)
        if not found:
            del index[key]
