"""What Kubernetes knows, as the texts that kubectl shows: pods, nodes, events, the workload's own conditions."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hooks.kubernetes.api import Object
from hooks.kubernetes.ending import disruption
from hooks.kubernetes.kinds import conditions_of, inside, number
from hooks.kubernetes.ranks import is_accelerator, main_container

LIMIT = 4 << 20
"""Bytes of one text at most."""
_LONGEST = 2000  # characters of one message
_BLANKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SAID = ("phase", "jobStatus", "jobDeploymentStatus", "reason", "message", "failed", "succeeded", "restarts")
_STATES = (("state", "State"), ("lastState", "Last State"))


def describe_pods(
    pods: Iterable[Object],
    ranks: Mapping[str, range] | None = None,
    replaced: Container[str] = (),
    names: Mapping[str, str] | None = None,
) -> bytes:
    """Where each pod was, and how each of its containers ended. By uids: its ranks, whether another took its place, and
    what it is called where that is not its name."""
    return _text("\n".join(_pod(pod, ranks or {}, replaced, names or {})) for pod in pods)


def describe_nodes(nodes: Iterable[Object], gone: Iterable[str] = (), took: Container[str] = ()) -> bytes:
    """The conditions, taints and accelerators of nodes, and which are no longer there.

    Nodes come and go: one is lost only if it `took` pods with it.
    """
    told = ["\n".join(_node(node)) for node in nodes]
    for name in gone:
        words = (
            "NodeLost: it left the cluster, and its pods with it" if name in took else "removed from the cluster since"
        )
        told.append(f"Name:         {one_line(name)}\nStatus:       {words}\n")
    return _text(told)


def describe_workload(items: Sequence[tuple[str, Object]]) -> bytes:
    """The conditions of the workload and of what speaks for it, in their own words."""
    parts = []
    for kind, item in items:
        metadata = item.get("metadata", {})
        lines = [f"{kind}: {metadata.get('namespace')}/{metadata.get('name')}"]
        status = item.get("status") or {}
        lines += [f"  {name}: {one_line(status[name])}" for name in _SAID if isinstance(status.get(name), str | int)]
        if isinstance(status.get("state"), dict):
            lines += [f"  state {name}: {one_line(value)}" for name, value in sorted(status["state"].items())]
        lines += _conditions(status)
        parts.append("\n".join(lines))
    return _text(parts)


def quote_log(items: Sequence[tuple[str, Object]]) -> bytes:
    """The end of a driver's log, where a workload quotes it in its message, as Ray's do; empty where none does."""
    told = [str(inside(item, "status", "message") or "") for _, item in items]
    lines = [line for message in told if "\n" in message.strip() for line in message.rstrip().split("\n")]
    return _text(line[:_LONGEST] for line in lines)


def list_events(events: Iterable[Object], names: Mapping[str, str] | None = None) -> bytes:
    """One event a line, the oldest first: when, type, reason, about what, and the message. `names` of pods are by uid."""
    rows = []
    for event in events:
        about = event.get("involvedObject") or event.get("regarding") or {}
        first, last = _times(event)
        count = number(event.get("count") or inside(event, "series", "count"))
        name = (names or {}).get(str(about.get("uid")), about.get("name", ""))
        subject = one_line(f"{str(about.get('kind', '')).lower()}/{name}")
        times = f" (x{count} since {first})" if count > 1 else ""
        message = one_line(event.get("message") or event.get("note") or "")
        kind, reason = one_line(event.get("type") or ""), one_line(event.get("reason") or "")
        rows.append((last, f"{last}   {kind:<8} {reason:<22} {subject:<40} {message}{times}"))
    newest, room = [], LIMIT
    for _, row in sorted(rows, reverse=True):
        room -= len(row.encode("utf-8", "replace")) + 1
        if room < 0:
            newest.append("[firstfault: older ones are left out]")
            break
        newest.append(row)
    return "".join(f"{row}\n" for row in reversed(newest)).encode("utf-8", "replace")


def _pod(pod: Object, held: Mapping[str, range], replaced: Container[str], names: Mapping[str, str]) -> Iterator[str]:
    metadata, status = pod.get("metadata", {}), pod.get("status") or {}
    ranks = held.get(str(metadata.get("uid")))
    yield f"Name:         {names.get(str(metadata.get('uid')), metadata.get('name'))}"
    yield f"Namespace:    {metadata.get('namespace')}"
    if node := inside(pod, "spec", "nodeName"):
        yield f"Node:         {node}/{status.get('hostIP') or ''}".rstrip("/")
    if ranks:
        yield f"Ranks:        {ranks[0]}" + (f"-{ranks[-1]}" if len(ranks) > 1 else "")
    if str(metadata.get("uid")) in replaced:
        yield "Replaced:     by a later pod"
    yield f"Start Time:   {status.get('startTime') or ''}".rstrip()
    yield f"Status:       {status.get('phase')}"
    for field in ("reason", "message"):
        if status.get(field):
            yield f"{field.capitalize() + ':':<13} {one_line(status[field])}"
    if status.get("podIP"):
        yield f"IP:           {one_line(status['podIP'])}"
    taken = disruption(pod)
    if taken:
        yield f"Disruption:   DisruptionTarget {taken.get('reason')}: {one_line(taken.get('message', ''))}"
    for title, field, of_spec in (
        ("Init Containers", "initContainerStatuses", "initContainers"),
        ("Containers", "containerStatuses", "containers"),
    ):
        specs = {each.get("name"): each for each in inside(pod, "spec", of_spec) or ()}
        order = [main_container(pod), *specs]
        found = sorted(status.get(field) or (), key=lambda each: _place(order, each.get("name")))
        if found:
            yield f"{title}:"
        for container in found:
            yield from _container(container, specs.get(container.get("name")) or {})
    yield from _conditions(status)
    yield ""


def _place(order: Sequence[Any], name: Any) -> int:
    """The one that trains comes first, the others as they are started; the API tells them by the alphabet."""
    return order.index(name) if name in order else len(order)


def _container(container: Object, spec: Object) -> Iterator[str]:
    yield f"  {container.get('name')}:"
    if spec.get("restartPolicy"):
        yield f"    Restart Policy: {one_line(spec['restartPolicy'])}"
    for field, title in _STATES:
        for word, state in (container.get(field) or {}).items():
            yield f"    {title + ':':<15} {word.capitalize()}"
            for key, label in (("reason", "Reason"), ("message", "Message"), ("exitCode", "Exit Code"),
                               ("signal", "Signal"), ("startedAt", "Started"), ("finishedAt", "Finished")):  # fmt: skip
                if state.get(key) not in (None, ""):
                    yield f"      {label + ':':<13} {one_line(state[key])}"
    yield f"    Restart Count:  {container.get('restartCount', 0)}"
    for resource in container.get("allocatedResourcesStatus") or ():
        for device in resource.get("resources") or ():
            if device.get("health") not in ("Healthy", None):
                words = f"{resource.get('name')} {device.get('resourceID')} is {device.get('health')}"
                yield f"    Device:         {one_line(words)}"
    limits = inside(spec, "resources", "limits")
    if limits:
        yield "    Limits:"
        yield from (f"      {key + ':':<16} {value}" for key, value in sorted(limits.items()))


def _node(node: Object) -> Iterator[str]:
    yield f"Name:         {node.get('metadata', {}).get('name')}"
    if inside(node, "spec", "unschedulable"):
        yield "Unschedulable: true"
    for taint in inside(node, "spec", "taints") or ():
        words = f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"
        yield f"Taint:        {one_line(words)}"
    yield from _conditions(node.get("status") or {})
    there, usable = inside(node, "status", "capacity") or {}, inside(node, "status", "allocatable") or {}
    for name in sorted(name for name in there if is_accelerator(name)):
        yield f"Accelerators: {one_line(name)} {one_line(usable.get(name, 0))} of {one_line(there[name])} usable"
    yield ""


def _conditions(status: Object) -> Iterator[str]:
    found = conditions_of({"status": status})
    if found:
        yield "Conditions:"
    for each in found:  # some kinds have no type, and their phase for a status
        kind, state, since, reason, message = (
            one_line(each.get(key) or "") for key in ("type", "status", "lastTransitionTime", "reason", "message")
        )
        yield f"  {kind:<20} {state:<8} {since:<21} {reason:<28} {message}".rstrip()


def _times(event: Object) -> tuple[str, str]:
    created = inside(event, "metadata", "creationTimestamp") or ""
    last = (
        event.get("lastTimestamp") or inside(event, "series", "lastObservedTime") or event.get("eventTime") or created
    )
    first = event.get("firstTimestamp") or event.get("eventTime") or created
    return one_line(first), one_line(last)


def one_line(value: Any, longest: int = _LONGEST) -> str:
    """Messages come from anywhere: one line each, of bounded length, without control characters."""
    return _BLANKS.sub(" ", str(value)).strip()[:longest]


def _text(parts: Iterable[str]) -> bytes:
    whole, size = [], 0
    for part in parts:
        piece = part.encode("utf-8", "replace") + b"\n"
        size += len(piece)
        if size > LIMIT:
            whole.append(b"[firstfault: the rest is left out]\n")
            break
        whole.append(piece)
    return b"".join(whole)
