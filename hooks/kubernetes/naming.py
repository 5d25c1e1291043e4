"""Names of the files that are sent: they say the rank, the host and the attempt to whoever reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hooks.kubernetes.api import Object
from hooks.kubernetes.kinds import inside, number
from hooks.kubernetes.logs import PodLogs, Run
from hooks.kubernetes.ranks import Seat, main_container
from hooks.kubernetes.telling import one_line

_MISLEADING = re.compile(
    r"(?i)(rank|ranks|attempt)(?=[-_.]?\d)|(e)(?=vents)|(d)(?=escribe)|(p)(?=ods?-status)|(g)(?=et-pods)"
)
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class Naming:
    """Names the logs of a workload's pods. `seats` holds all pods, those that were replaced too.

    A rank that ran several times, in one pod or several, has its runs numbered so that the last is in the last
    attempt: who ran only once was there to the end.
    """

    def __init__(self, seats: Sequence[Seat]) -> None:
        places: dict[object, list[Seat]] = {}
        for seat in sorted(seats, key=lambda each: each.made):
            places.setdefault((seat.group, seat.number) if seat.number is not None else seat.name, []).append(seat)
        counts = {key: sum(_runs_in(seat.pod) for seat in found) for key, found in places.items()}
        self._most = max(counts.values(), default=1)
        self._first: dict[str, int] = {}  # by the pod's uid: the attempt of its first run
        for key, found in places.items():
            next_one = self._most - counts[key]
            for seat in found:
                self._first[seat.uid] = next_one
                next_one += _runs_in(seat.pod)

    def files(self, seat: Seat, got: PodLogs) -> Iterator[tuple[str, bytes]]:
        """A pod's logs by the names under which they are sent, packed."""
        for run, packed in got.logs.items():
            yield self.name(seat, run), packed

    def name(self, seat: Seat, run: Run) -> str:
        """`gpu-n17/rank-3.llm-worker-2.pytorch.log`: a rank's number only where the pod holds one rank."""
        container, nth = run
        if seat.launches:
            what = "launcher"
        elif seat.rank is not None and container == main_container(seat.pod):
            what = f"rank-{seat.rank}"
        else:
            what = "pod"
        attempt = f".attempt-{min(self._first.get(seat.uid, 0) + nth, 999)}" if self._most > 1 else ""
        return f"{seat.node[:63] or 'no-node'}/{what}{attempt}.{_plain(seat.name)[:70]}.{_plain(container)[:40]}.log"


def not_collected(seats: Sequence[Seat], fetched: Mapping[str, PodLogs], left_out: Sequence[str]) -> bytes:
    """What could not be had, one log a line; empty where all of it was."""
    lines = [
        f"pod {_plain(seat.name)}, container {_plain(run[0])}, run {run[1]}: {one_line(why, 300)}"
        for seat in seats
        if (got := fetched.get(seat.uid))
        for run, why in sorted(got.missing.items())
    ]
    lines += [f"pod {_plain(name)}: left out, for the logs of the others fill --job-bytes" for name in left_out]
    return "".join(f"{line}\n" for line in lines).encode()


def _plain(name: str) -> str:
    """A name that says nothing which the watcher does not mean: pods may be called `low-rank-8`."""
    return _MISLEADING.sub(lambda found: f"{found[0]}__", _ODD.sub("_", name))


def _runs_in(pod: Object) -> int:
    main = inside(pod, "status", "containerStatuses") or ()
    return 1 + max((number(inside(each, "restartCount"), 0) for each in main), default=0)
