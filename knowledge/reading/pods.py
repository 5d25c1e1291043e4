"""What `kubectl describe pods`, or a text of its form, says of pods: their ranks, and how their containers ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from knowledge.job import MOST_RANKS
from knowledge.reading.evidence import Ended, Exit, Place, Pod
from knowledge.tables.exits import signal_of

CLOCKS = 5.0
"""Seconds by which the clocks of two nodes may differ: what ended by more before all others ended first."""

_FIELD = re.compile(r"^(?P<name>[A-Z][\w -]{0,30}): *(?P<value>.{0,400})")
_NAME = re.compile(r"^[a-z0-9][a-z0-9.-]{0,252}$")
_CONTAINER = re.compile(r"^  (?P<name>[a-z0-9][a-z0-9-]{0,62}):$")
_OF_CONTAINER = re.compile(r"^ {4}(?P<name>[A-Z][\w ]{0,20}): *(?P<value>\w*)")
_OF_STATE = re.compile(r"^ {6}(?P<name>Reason|Exit Code|Finished): +(?P<value>.{1,80})$")
_ACCELERATORS = re.compile(r"^ {6}[\w.-]+/(?:gpu|mig-[\w.-]+|neuron|neuroncore|tpu|gaudi): +(?P<count>\d{1,3})$")
_RANK = re.compile(r"^ {6}RANK: +(?P<rank>\d{1,7})$")
_INDEX = re.compile(r"\bbatch\.kubernetes\.io/job-completion-index[=:] *(?P<index>\d{1,7})\b")
_ONE_OF_MANY_JOBS = "jobset.sigs.k8s.io/"  # whose pods are counted anew in each
_NOBODY_KNOWS = "ContainerStatusUnknown"  # with 137 for a code, whatever happened
_MOST_IN_POD = 1024
_RANGE = re.compile(r"^(?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))?$")


class PodReader:
    """Reads the description of pods line by line."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self._begin("")

    def _begin(self, name: str) -> None:
        self._pod: Pod | None = Pod(name) if name else None
        self._section = ""
        self._index: int | None = None
        self._told = self._of_set = False
        self._accelerators: Counter[str] = Counter()
        self._leave("")

    def _leave(self, container: str) -> None:
        self._container, self._serving, self._waiting = container, False, False
        self._state = self._reason = ""
        self._ended: Ended | None = None

    def feed(self, text: str, place: Place) -> None:
        """Take the next line."""
        if text.startswith("Name:"):
            self._finish()
            name = text.partition(":")[2].strip()
            self._begin(name if _NAME.match(name) else "")
        elif self._pod is None:
            return
        elif text[:1] != " ":
            self._top(self._pod, text)
        elif self._section in ("Labels", "Annotations"):
            self._label(text)
        elif self._section in ("Init Containers", "Containers"):
            self._in_container(self._pod, text, place)

    def finish(self) -> dict[str, Pod]:
        """The pods that were read, by name."""
        self._finish()
        return self.pods

    def _top(self, pod: Pod, text: str) -> None:
        found = _FIELD.match(text)
        if not found:
            return
        self._section, value = found["name"], found["value"].strip()
        self._leave("")
        if self._section == "Namespace":  # nodes have none
            self.pods[pod.name] = pod
        elif self._section == "Node":
            node = value.partition("/")[0]
            pod.node = node if node[:1].isalnum() and node != "none" else None
        elif self._section == "Replaced":
            pod.replaced = True
        elif self._section == "IP":
            pod.address = value if re.fullmatch(r"[0-9a-fA-F.:]{2,45}", value) else None
        elif self._section == "Ranks" and (told := _RANGE.match(value)):
            first, last = int(told["first"]), int(told["last"] or told["first"])
            pod.ranks, self._told = _ranks(first, last + 1 - first), True
        elif self._section in ("Labels", "Annotations"):
            self._label(value)

    def _label(self, text: str) -> None:
        self._of_set = self._of_set or _ONE_OF_MANY_JOBS in text
        if found := _INDEX.search(text):
            self._index = int(found["index"])

    def _in_container(self, pod: Pod, text: str, place: Place) -> None:
        if found := _CONTAINER.match(text):
            self._leave(found["name"])
            if self._section == "Containers" and pod.main is None:
                pod.main = found["name"]
        elif found := _OF_CONTAINER.match(text):
            name, value = found["name"], found["value"]
            self._state = name if name in ("State", "Last State") else ""
            self._reason, self._ended = "", None
            self._waiting = value == "Waiting" if name == "State" else self._waiting
            self._serving = self._serving or (name, value) == ("Restart Policy", "Always")
        elif self._state and (found := _OF_STATE.match(text)):
            self._of_state(pod, found["name"], found["value"].strip(), place)
        elif found := _ACCELERATORS.match(text):
            if self._section == "Containers":
                self._accelerators[self._container] += int(found["count"])
        elif (found := _RANK.match(text)) and self._section == "Containers" and not self._told:
            pod.ranks = _ranks(int(found["rank"]), 1)

    def _of_state(self, pod: Pod, name: str, value: str, place: Place) -> None:
        if name == "Reason":
            self._reason = value
        elif name == "Finished" and self._ended:
            self._ended.seconds = _seconds(value)
        elif name == "Exit Code" and re.fullmatch(r"-?\d{1,10}", value):
            if self._state == "Last State" and not self._waiting:
                return  # it was started again since
            if self._reason == _NOBODY_KNOWS:
                return
            code = int(value)
            signal = signal_of(code)
            self._ended = Ended(
                place, self._container, self._section == "Init Containers", self._serving,
                code if signal is None else -signal, self._reason,
            )  # fmt: skip
            pod.ends.append(self._ended)

    def _finish(self) -> None:
        """What can be told of a pod only once all of it was read."""
        pod = self._pod
        if pod is not None and pod.replaced:
            pod.ends.clear()
        if pod is None or pod.replaced or self._told:
            return
        if len(self._accelerators) == 1:
            pod.main = next(iter(self._accelerators))
        if pod.ranks is None and self._index is not None and not self._of_set:
            each = max(1, self._accelerators[pod.main or ""])
            pod.ranks = _ranks(self._index * each, each)


def _ranks(first: int, count: int) -> range | None:
    """So many ranks from the first; None where no job and no pod has them."""
    return range(first, first + count) if 0 < count <= _MOST_IN_POD and first + count <= MOST_RANKS else None


def _seconds(text: str) -> float | None:
    """A time as the API or kubectl writes it, in seconds since the epoch."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = parse(text)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def first_of(pods: Iterable[Pod]) -> Pod | None:
    """The pod whose training container ended badly before those of all others did, where nodes' clocks leave no doubt."""
    ended = [(pod, end) for pod in pods if (end := pod.ended) and end.code not in (0, -15)]
    times = sorted((end.seconds, pod.name) for pod, end in ended if end.seconds is not None)
    if not times or len(times) < len(ended) or (len(times) > 1 and times[1][0] - times[0][0] <= CLOCKS):
        return None
    return next(pod for pod, _ in ended if pod.name == times[0][1])


def is_torn_down(ended: Ended, began: float | None) -> bool:
    """Whether a container was killed when the grace time was over in which it should have stopped, as others had failed.

    `began` is when the first container of any pod ended badly, in seconds since the epoch.
    """
    late = began is not None and ended.seconds is not None and ended.seconds > began + CLOCKS
    return ended.code == -9 and ended.reason != "OOMKilled" and late


def began_at(pods: Iterable[Pod]) -> float | None:
    """When the first of the containers that train ended badly, in seconds since the epoch."""
    ends = [end for pod in pods if (end := pod.ended) and end.code not in (0, -15)]
    return min((end.seconds for end in ends if end.seconds is not None), default=None)


def exits_of(pods: Iterable[Pod], attempt: int) -> list[Exit]:
    """How ranks ended that have a pod of their own, in the last attempt; not where two pods claim to be one rank's."""
    pods = list(pods)
    since = began_at(pods)
    claims = Counter(rank for pod in pods for rank in pod.ranks or ())
    first = first_of(pods)
    found = []
    for pod in pods:
        ended = pod.ended
        if ended is None or pod.ranks is None or len(pod.ranks) != 1 or claims[pod.ranks[0]] != 1:
            continue
        if is_torn_down(ended, since):
            continue
        ended.place.attempt, ended.place.rank, ended.place.host = attempt, pod.ranks[0], pod.host
        found.append(Exit(ended.place, ended.code, pod.ranks[0], host=pod.host, first=pod is first, by="kubernetes"))
    return found
