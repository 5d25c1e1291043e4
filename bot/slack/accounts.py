"""All ranks in one table: who began it, who only followed, what each said last; equal ones in one row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bot.slack import phrases, rich
from bot.slack.contract import Block, SlackMessage
from bot.slack.escape import literal, mrkdwn
from knowledge.dossier import Dossier, Part, RankAccount
from knowledge.job import JobFacts

FOLDED_ABOVE = 16  # ranks; fewer have a row each
FEW_ROWS = 20  # so many may say more
WORDS, MORE_WORDS = 100, 200

_ORDER = {Part.INITIATING: 0, Part.SILENT: 1, Part.OTHER: 2, Part.COLLATERAL: 3}
_PARTS = {
    Part.INITIATING: "began it",
    Part.SILENT: "nothing arrived",
    Part.OTHER: "–",
    Part.COLLATERAL: "followed",
}
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)*")

Group = list[RankAccount]


def ranks(job: JobFacts, dossier: Dossier | None) -> SlackMessage | None:
    """Return the reply with the table; None where fewer than two ranks are known."""
    if dossier is None or len(dossier.ranks) < 2:
        return None
    accounts = sorted(dossier.ranks, key=lambda account: (_ORDER[account.part], account.rank))
    groups = _alike(accounts) if len(accounts) > FOLDED_ABOVE else [[account] for account in accounts]
    blocks = _blocks(job, dossier, groups)
    told = "; ".join(_told(group) for group in _alike(accounts)[:8])
    return SlackMessage(mrkdwn(f"{_title(job, dossier)}. {told}", 3_000), blocks, "")


def _blocks(job: JobFacts, dossier: Dossier, groups: list[Group]) -> list[Block]:
    columns, words = _columns(groups), MORE_WORDS if len(groups) <= FEW_ROWS else WORDS
    lines = [[literal(write(group), words) for _, write in columns] for group in groups]

    def shown(rows: int) -> list[Block]:
        hidden = sum(len(group) for group in groups[rows:])
        more = [[f"… and {hidden} more", *([""] * (len(columns) - 1))]] if hidden else []
        table = rich.table([head for head, _ in columns], [*lines[:rows], *more])
        return [rich.context(mrkdwn(_title(job, dossier), 500)), table]

    return rich.fitting(shown, most=len(lines))[1]


def _title(job: JobFacts, dossier: Dossier) -> str:
    size = dossier.world_size or job.world_size
    known = phrases.count(len(dossier.ranks), "rank")
    title = f"{known} of {size} are known" if size and size > len(dossier.ranks) else f"All ranks: {known}"
    return f"{title} · {dossier.omitted}" if dossier.omitted else title


def _columns(groups: Sequence[Group]) -> list[tuple[str, Callable[[Group], str]]]:
    """The columns in which anything stands."""
    every = [
        ("Rank", _numbers),
        ("Part", _part),
        ("Host", _hosts),
        ("Step", _steps),
        ("Ended", _ended),
        ("Said", _said),
    ]
    return [(head, write) for head, write in every if any(write(group) not in ("", "–") for group in groups)]


def _alike(accounts: Sequence[RankAccount]) -> list[Group]:
    """All that are alike, in one row; larger groups later, for the odd ones tell more."""
    groups: dict[tuple[str, ...], Group] = {}
    for account in accounts:
        groups.setdefault(_kind(account), []).append(account)
    return sorted(groups.values(), key=lambda group: (_ORDER[group[0].part], len(group), group[0].rank))


def _kind(account: RankAccount) -> tuple[str, ...]:
    return (account.part, account.ended, _CHANGING.sub("#", _said([account])))


def _numbers(group: Group) -> str:
    return phrases.numbers([account.rank for account in group])


def _part(group: Group) -> str:
    return _PARTS[group[0].part]


def _hosts(group: Group) -> str:
    names = list(dict.fromkeys(account.host for account in group if account.host))
    return names[0] if len(names) == 1 else phrases.count(len(names), "host") if names else ""


def _steps(group: Group) -> str:
    steps = sorted({account.step for account in group if account.step is not None})
    return "" if not steps else str(steps[0]) if len(steps) == 1 else f"{steps[0]}–{steps[-1]}"


def _ended(group: Group) -> str:
    return group[0].ended


def _said(group: Group) -> str:
    said = group[0].telling or group[0].last
    return said.text if said else ""


def _told(group: Group) -> str:
    words = ", ".join(word for word in (literal(_said(group), 80), _ended(group)) if word)
    return f"{_numbers(group)} {_part(group)}{f': {words}' if words else ''}"
