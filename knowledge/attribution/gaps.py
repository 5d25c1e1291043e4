"""What the evidence lacks: logs that end too early, ranks that nothing was heard of, hosts whose kernel log was not read.

A rank whose log is torn may have said why it failed in the part that is lost: its silence means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from knowledge.attribution.notation import compress
from knowledge.reading.evidence import Place, RankStory
from knowledge.signature import SourceKind

if TYPE_CHECKING:
    from knowledge.attribution.view import CaseView

_INTERVALS = 2.5  # progress lines by which ranks of one job may lie apart
_FEW = 3  # lines of a rank in other files than its own, such as the launcher's, from which it was heard of
_NODE_KINDS = (SourceKind.KERNEL, SourceKind.NODE)


class Gaps:
    """The gaps in the evidence of one attempt."""

    def __init__(self, view: CaseView) -> None:
        self._view = view

    @cached_property
    def torn(self) -> dict[int, str]:
        """Ranks whose log ends too early → how it ends, as part of a sentence."""
        found: dict[int, str] = {}
        for rank, story in self._view.stories.items():
            if story.torn is not None and not _is_bar(story.torn, story):
                found[rank] = "ends in the middle of a message"
            elif (behind := self._behind(story)) is not None:
                found[rank] = f"ends at step {story.last_step}, {behind} before the other ranks"
        return found

    def rest_of(self, rank: int) -> str:
        """The fact that is missing where a rank's log is torn."""
        story = self._view.stories[rank]
        last = story.torn or story.last
        name = last.source.name if last else f"the log of rank {rank}"
        where = f"{name} {self.torn[rank]}"
        if last and last.source.rank is None:
            where = f"what {name} holds of it {self.torn[rank]}"
        return f"What rank {rank} wrote last: {where}. Add the whole file from its host."

    def rests(self) -> str:
        """The same fact for all torn logs together; there must be one."""
        ranks = sorted(self.torn)
        if len(ranks) == 1:
            return self.rest_of(ranks[0])
        first = self._view.stories[ranks[0]]
        last = first.torn or first.last
        example = last.source.name if last else f"that of rank {ranks[0]}"
        return f"What ranks {compress(ranks)} wrote last: their logs end too early, such as {example}. Add the whole files."

    def _behind(self, story: RankStory) -> int | None:
        """Steps by which a rank's log ends before the others', if that is more than ranks that wait for each other can be apart."""
        if story.last_step is None or story.last != story.last_progress or len(self._last_steps) < 3:
            return None
        usual = int(median(self._last_steps))
        behind = usual - story.last_step
        return behind if behind > max(2, _INTERVALS * self._interval) else None

    @cached_property
    def _last_steps(self) -> list[int]:
        return [story.last_step for story in self._view.stories.values() if story.last_step is not None]

    @cached_property
    def _interval(self) -> float:
        """Steps between two progress lines of a rank."""
        apart = [
            abs(steps[-1] - steps[-2]) for story in self._view.stories.values() if len(steps := list(story.steps)) > 1
        ]
        return median(apart) if apart else 1.0

    @cached_property
    def unheard(self) -> list[int]:
        """Ranks of which next to nothing was heard, in a job whose other ranks have files of their own."""
        filed = {
            source.rank
            for source in self._view.case.sources
            if source.rank is not None and source.attempt in (None, self._view.attempt)
        }
        heard = {rank for rank, story in self._view.stories.items() if story.lines >= (1 if rank in filed else _FEW)}
        return [rank for rank in self._view.ranks if rank not in heard] if len(filed) > 1 else []

    @cached_property
    def _read_hosts(self) -> set[str]:
        return {(source.host or "").split(".")[0] for source in self._view.case.sources if source.kind in _NODE_KINDS}

    def node_read(self, hosts: Iterable[str]) -> bool:
        """Whether a kernel log or a node's own report was read, of these hosts if any are given."""
        if not self._read_hosts:
            return False
        wanted = {name.split(".")[0] for host in hosts for name in (host, self._view.node_under(host)) if name}
        return not wanted or "" in self._read_hosts or bool(wanted & self._read_hosts)


def _is_bar(last: Place, story: RankStory) -> bool:
    """Whether the unfinished line is a progress bar, which ends without a line end when all is well."""
    return last == story.last_progress and last.text.rstrip().endswith("]")
