"""What kind of file this is: by its content first, by its name second."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from knowledge.reading.bundle import Source
from knowledge.reading.prefixes import Habits
from knowledge.signature import SourceKind

_KERNEL = re.compile(
    r"^\[ *\+?\d+\.\d+\] |^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4}\] |^[A-Z][a-z]{2} +\d+ [\d:]+ \S+ kernel: |^<\d>\["
)
_KUBERNETES = re.compile(r"^NAMESPACE +NAME|^NAME +READY|^LAST SEEN +TYPE|^Events:|^  Type +Reason|^Name: +\S+$")
_SLURMCTLD = re.compile(
    r"^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:sched|error|debug|_slurm|job|node|Resending|slurmctld|update_node|cleanup|backfill|preempt)"
)


def recognise(source: Source, lines: Sequence[str], ranks: Counter[int], habits: Habits) -> SourceKind | None:
    """Decide the kind of a source from its first lines and the ranks seen in them; None: cannot tell."""
    content = [line for line in lines if line.strip()]
    total = len(content)
    if total:
        if sum(bool(_KERNEL.match(line)) for line in content) > total * 0.6:
            return source.kind if source.kind is SourceKind.NODE else SourceKind.KERNEL
        if any(_KUBERNETES.match(line) for line in content[:20]):
            return SourceKind.KUBERNETES
        if sum(bool(_SLURMCTLD.match(line)) for line in content) > total * 0.5:
            return SourceKind.SCHEDULER
    if len(ranks) > 1 or habits.label or habits.hydra:
        return SourceKind.LAUNCHER if source.kind is SourceKind.LAUNCHER else SourceKind.COMBINED
    return source.kind
