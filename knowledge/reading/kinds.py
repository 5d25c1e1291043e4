"""What kind of file this is: by its content first, by its name second."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from knowledge.reading.bundle import Source
from knowledge.reading.prefixes import Habits
from knowledge.reading.syslog import is_journal, is_kernel_line
from knowledge.reading.wrapped import unwrap
from knowledge.signature import SourceKind

_KERNEL = re.compile(
    r"^\[ *\+?\d+\.\d+\] |^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4}\] |^[A-Z][a-z]{2} +\d+ [\d:]+ \S+ kernel: |^<\d>\["
)
_KMSG = re.compile(r"^\d{1,3},\d+,\d+,[^;]*;")  # a record of /dev/kmsg
_KUBERNETES = re.compile(r"^NAMESPACE +NAME|^NAME +READY|^LAST SEEN +TYPE|^Events:|^  Type +Reason|^Name: +\S+$")
_SLURMCTLD = re.compile(
    r"^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:sched|error|debug|_slurm|job|node|Resending|slurmctld|update_node|cleanup|backfill|preempt)"
)
_CAPITALS_AND_BRACKETS = frozenset("[<ABCDEFGHIJKLMNOPQRSTUVWXYZ")  # with which a line of the kernel's begins


def recognise(source: Source, lines: Sequence[str], ranks: Counter[int], habits: Habits) -> SourceKind | None:
    """Decide the kind of a source from its first lines and the ranks seen in them; None: cannot tell."""
    content = [line for line in lines if line and not line.isspace()]
    if content:
        if _mostly(lambda line: line[0] in _CAPITALS_AND_BRACKETS and bool(_KERNEL.match(line)), content, 0.6):
            return source.kind if source.kind is SourceKind.NODE else SourceKind.KERNEL
        if content[0][0].isdigit() and _mostly(
            lambda line: is_kernel_line(line) or bool(_KMSG.match(line)), content, 0.6
        ):
            return source.kind if source.kind is SourceKind.NODE else SourceKind.KERNEL
        if content[0][0] == "{" and _mostly(_is_kernels_record, content, 0.6):
            return SourceKind.KERNEL
        if source.kind is None and is_journal(content):
            return SourceKind.NODE
        if any(_KUBERNETES.match(line) for line in content[:20]):
            return SourceKind.KUBERNETES
        if _mostly(lambda line: line[0] == "[" and bool(_SLURMCTLD.match(line)), content, 0.5):
            return SourceKind.SCHEDULER
    if len(ranks) > 1 or habits.label or habits.hydra:
        return SourceKind.LAUNCHER if source.kind is SourceKind.LAUNCHER else SourceKind.COMBINED
    return source.kind


def _mostly(holds: Callable[[str], bool], lines: Sequence[str], share: float) -> bool:
    """Whether something holds for more than a share of the lines; looks no further than it needs to."""
    spared = len(lines) * (1 - share)
    for line in lines:
        if not holds(line):
            spared -= 1
            if spared <= 0:
                return False
    return True


def _is_kernels_record(line: str) -> bool:
    found = unwrap(line)
    return found is not None and found.kernels
