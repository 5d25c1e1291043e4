"""Is it the node, the network, the code or the data?"""

from __future__ import annotations

from collections.abc import Mapping

from bot.answers.asked import Asked, of_timeline
from bot.answers.reply import Line, Quotes, Reply, Steps, Words
from bot.cli.lookup import layers
from bot.slack import phrases
from knowledge.causes import load_causes
from knowledge.diagnosis import Role
from knowledge.signature import Nature

KINDS: Mapping[str, str] = {
    "node": "the node",
    "network": "the network",
    "code": "the code",
    "data": "the data",
    "platform": "the platform",
}
_OF_LAYER: Mapping[str, tuple[str, str]] = {
    "application": ("code", "the training program"),
    "data": ("data", "the data or how it is read"),
    "checkpoint": ("platform", "a checkpoint"),
    "gpu": ("node", "a GPU of the node, or the kernel that ran on it"),
    "gpu-hardware": ("node", "hardware of the node"),
    "gpu-memory": ("code", "the program's need of GPU memory"),
    "driver": ("node", "the node's driver or its services"),
    "host-hardware": ("node", "hardware of the node"),
    "host-memory": ("node", "the memory of the host, or the program's need of it"),
    "network": ("network", "the network, or how the job uses it"),
    "storage": ("platform", "storage"),
    "environment": ("platform", "the installation or the job's settings"),
    "launcher": ("platform", "how the job was launched"),
    "kubernetes": ("platform", "Kubernetes"),
    "scheduler": ("platform", "the scheduler, or a person"),
    "process": ("process", "a process that ended without saying why"),
    "collective": ("process", "a rank that did not take part"),
}
_NATURES = {
    Nature.HARDWARE: "Hardware has to be looked after.",
    Nature.SOFTWARE: "The program has to change; the machines are not at fault.",
    Nature.CONFIGURATION: "A setting or an installation has to change; the hardware is not broken.",
    Nature.EITHER: "Machine or program may be at fault; the lines alone do not settle it.",
}


async def blame(asked: Asked) -> Reply:
    """Name the kind of culprit, the lines for it, and whether anything speaks for the other kinds."""
    if not asked.failed:
        return asked.reply(Words(f"None of them: {asked.diagnosis.cause.summary}"), Quotes(asked.proofs(2)))
    cause = load_causes().get(asked.diagnosis.cause.id)
    kind, words = kind_of(asked.diagnosis.cause.layer)
    if cause is None or not asked.known:
        return asked.reply(Words("That cannot be told yet: the cause was not found."), _missing(asked))
    hedge = "Perhaps " if asked.diagnosis.confidence < phrases.SURE else ""
    opening = f"{hedge}{words}: {asked.verdict()}" if hedge else f"{words[0].upper()}{words[1:]}: {asked.verdict()}"
    if kind == "process":
        opening = f"Node, network, code or data: the logs do not say. {asked.verdict()} It is {words}."
    answers = [_about(asked, other) for other in ("node", "network", "code", "data") if other != kind]
    return asked.reply(
        Words(f"{opening} {_NATURES[cause.nature]}"),
        Quotes(asked.proofs(), "What speaks for it"),
        Steps(tuple(answers), "And the others"),
        _missing(asked),
    )


def kind_of(layer: str) -> tuple[str, str]:
    """Which kind of culprit a cause's layer is, and in words."""
    return _OF_LAYER.get(layer, ("process", "something that is not known"))


def speaking_for(asked: Asked, kind: str) -> tuple[Line, ...]:
    """Lines of causes of one kind that stand in the story, besides those of the verdict's own."""
    own = asked.diagnosis.cause.layer
    found = [
        line
        for line in asked.matter.dossier.timeline
        if line.signature and line.role is not Role.CASCADE and (layer := layers().get(line.signature, "")) != own
        and kind_of(layer)[0] == kind and _accuses(line.signature)
    ]  # fmt: skip
    return of_timeline(found[:3])


def _accuses(signature: str) -> bool:
    from knowledge.catalogue import load_catalogue
    from knowledge.signature import SignatureRole

    entry = load_catalogue().entries.get(signature)
    return entry is not None and entry.role is SignatureRole.ROOT


def _about(asked: Asked, kind: str) -> str:
    name = KINDS[kind]
    weighed = [
        other
        for other in asked.diagnosis.alternatives
        if _layer(other.cause) and kind_of(_layer(other.cause))[0] == kind
    ]
    if weighed:
        one = weighed[0]
        known = load_causes().get(one.cause)
        return f"{name}: “{known.title if known else one.cause}” was weighed ({one.confidence:.0%}). {one.why_not}"
    lines = speaking_for(asked, kind)
    if lines:
        return f"{name}: {', '.join(line.place for line in lines)} also speaks of it, and is explained by the above."
    return f"{name}: no line that was read accuses it."


def _layer(cause: str) -> str:
    known = load_causes().get(cause)
    return known.layer if known else ""


def _missing(asked: Asked) -> Words | None:
    return Words(f"What would decide it: {asked.diagnosis.missing[0]}") if asked.diagnosis.missing else None
