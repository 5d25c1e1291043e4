"""The dossier of a case: what attribution has read anyway, kept for people who ask further."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.accounts.quoting import Quoting, settle
from knowledge.accounts.ranks import account_for_ranks
from knowledge.accounts.settings import find_settings, told
from knowledge.accounts.sources import account_for_sources
from knowledge.accounts.timeline import tell_timeline
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Diagnosis
from knowledge.dossier import MAX_RANKS, MAX_SOURCES, Dossier

__all__ = ["compile_dossier"]


def compile_dossier(view: CaseView, diagnosis: Diagnosis) -> Dossier:
    """Write the accounts of one attempt while its files are still there. Raises UnreadableEvidence."""
    quoting = Quoting()
    timeline, incomparable = tell_timeline(view, diagnosis, quoting)
    ranks = account_for_ranks(view, diagnosis, quoting)
    settings = find_settings(view, diagnosis)
    said = [line for account in ranks for line in (account.telling, account.last) if line is not None]
    settle([*timeline, *said, *(setting.said for setting in settings)])
    omitted = [*_left_out(view, quoting)]
    if incomparable and len({account.host for account in ranks if account.host}) > 1:
        omitted.append(f"The clocks of {', '.join(incomparable)} cannot be compared with the others'.")
    return Dossier(
        schema=1,
        world_size=view.case.world_size,
        ranks=ranks,
        timeline=timeline,
        sources=account_for_sources(view),
        settings=[setting for setting in settings if told(setting)],
        omitted=" ".join(omitted),
    )


def _left_out(view: CaseView, quoting: Quoting) -> Iterator[str]:
    if (count := len(view.numbered)) > MAX_RANKS:
        yield f"Of {count} ranks, {MAX_RANKS} are told of: those that began it, had trouble or are silent, and the first others."
    if (count := len(view.case.sources)) > MAX_SOURCES:
        yield f"Of {count} logs, {MAX_SOURCES} are listed."
    if quoting.refused:
        yield f"{quoting.refused} lines of large logs are not quoted."
