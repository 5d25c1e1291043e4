"""The beginning and the end of a log, where it says most about itself."""

from __future__ import annotations

from knowledge.reading.bundle import Source


def read_ends(source: Source, head: int, tail: int) -> list[tuple[int, bytes]]:
    """Whole lines of the first `head` and the last `tail` bytes, each part with its offset; of a packed log only the head.

    Raises UnreadableEvidence.
    """
    with source.open() as stream:
        size = stream.size
        data = stream.read(head if size is None or size > head + tail else head + tail)
    if size is None or size <= len(data):
        return [(0, data)]
    parts = [(0, data[: data.rfind(b"\n") + 1])]
    start = max(len(data), size - tail)
    with source.path.open("rb") as file:
        file.seek(start)
        data = file.read(tail)
    whole = data.find(b"\n") + 1
    if whole:
        parts.append((start + whole, data[whole:]))
    return parts
