"""What a rank or a node said, last or around a time; and the log itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.answers.asked import Asked
from bot.answers.logs import Keep
from bot.answers.reply import Line, Part, Quotes, Reply, Words, of_said
from bot.answers.telling.story import log_of
from bot.slack import phrases
from knowledge.dossier import Part as Role
from knowledge.dossier import RankAccount
from knowledge.reading.prefixes import Habits, Prefix, strip_prefix

_LAST = 6  # lines shown of what somebody said last
_TAIL = 20  # lines shown of a log where no number was asked for
_MOST = 3  # ranks or hosts at once
_AROUND = 5
_HEAD = 120  # characters of a line in which it may say whose it is
_RANK = re.compile(r"\[Rank (\d+)\]|\[rank(\d+)\]")

_HABITS = (Habits(), Habits(label=True, hydra=True), Habits(label=True, hydra=True, host=True))

_PARTS = {
    Role.INITIATING: "it began there",
    Role.COLLATERAL: "it only followed",
    Role.SILENT: "nothing of it has arrived",
    Role.OTHER: "not known to have failed by itself",
}


async def said(asked: Asked) -> Reply:
    """The last lines of each rank and host that was named, or the lines around a moment."""
    parts: list[Part] = []
    ranks, hosts = _named(asked)
    for rank in ranks[:_MOST]:
        parts += await _of_rank(asked, rank)
    for host in hosts[:_MOST]:
        parts += await _of_host(asked, host)
    if not parts:
        known = phrases.numbers(sorted(asked.matter.ranks)) or "none"
        parts.append(Words(f"Whose words? Name a rank or a node. Ranks that are known: {known}."))
    return asked.reply(*parts)


async def log(asked: Asked) -> Reply:
    """The end of the log that was named, of each rank or host that was named, or of who began it."""
    count = asked.slots.count or _TAIL
    parts: list[Part] = []
    for name in sorted(asked.slots.logs, key=lambda name: name not in _telling_logs(asked))[:_MOST]:
        parts += await _tail(asked, name, count, f"{name}, the last lines", None)
    ranks, hosts = ([], []) if asked.slots.logs else _named(asked)
    for rank in ranks[:_MOST]:
        parts += await _of_rank(asked, rank, asked.slots.count or _TAIL)
    for host in hosts[:_MOST]:
        parts += await _of_host(asked, host, asked.slots.count or _TAIL)
    if not parts:
        listed = ", ".join(f"`{source.name}`" for source in asked.matter.dossier.sources[:12])
        parts.append(Words(f"Whose log? Name a rank, a node or a file. There are {listed or 'none'}."))
    return asked.reply(*parts)


def _telling_logs(asked: Asked) -> set[str]:
    """The logs that prove the verdict: of several that are meant, people want those first."""
    return {evidence.source for evidence in asked.diagnosis.evidence}


def _named(asked: Asked) -> tuple[Sequence[int], Sequence[str]]:
    """Who was named; nobody: who began it."""
    if asked.slots.ranks or asked.slots.hosts:
        return asked.slots.ranks, asked.slots.hosts
    began = asked.diagnosis.initiating
    return (began.ranks[:1], ()) if began.ranks else ((), began.hosts[:1])


async def _of_rank(asked: Asked, rank: int, count: int = _LAST) -> list[Part]:
    account = asked.matter.account(rank)
    if rank not in asked.matter.ranks and account is None:
        known = phrases.numbers(sorted(asked.matter.ranks))
        return [
            Words(f"There is no rank {rank} in what has arrived." + (f" Known are ranks {known}." if known else ""))
        ]
    parts: list[Part] = [Words(_introduction(asked, rank, account))]
    moment, logs = asked.slots.moment(asked.end), asked.matter.logs
    name = log_of(asked, rank)
    if moment is not None and logs is not None and name is not None:
        lines = await logs.at(name, moment, _AROUND)
        return [
            *parts,
            Quotes(tuple(lines), f"Around {moment:%H:%M:%S}", run=True)
            if lines
            else Words(f"{name} has no line from then."),
        ]
    telling = account.telling if account else None
    lines = []
    heading = "Its last words" if count == _LAST else f"{name}, the last lines"
    if name is not None and logs is not None and (account is None or account.part is not Role.SILENT):
        shared, keep = _is_shared(asked, rank, name), _keeps(asked, rank, name)
        if not shared or keep is not None:
            lines = await logs.tail(name, count, keep if shared else None)
        elif asked.intent == "log":  # whose lines they are cannot be told
            lines, heading = await logs.tail(name, count), f"{name}, the last lines, of whichever rank"
    if not lines and account is not None and account.last is not None:
        lines = [of_said(account.last, rank, account.host)]
    if telling is not None and all((line.source, line.number) != (telling.source, telling.line) for line in lines):
        parts.append(Quotes((of_said(telling, rank, account.host if account else None),), "What tells most"))
    if lines:
        parts.append(Quotes(tuple(lines), heading, run=True))
    elif telling is None:
        parts.append(Words("No line of it is known." if account is None or account.part is not Role.SILENT else ""))
    return [part for part in parts if not (isinstance(part, Words) and not part.text)]


def _introduction(asked: Asked, rank: int, account: RankAccount | None) -> str:
    if account is None:
        return f"Rank {rank}:"
    where = f" on {account.host}" if account.host else ""
    told = [_PARTS[account.part] if asked.failed or account.part is Role.SILENT else "the job did not fail"]
    if account.step is not None:
        told.append(f"last step {account.step}")
    if account.ended:
        told.append(f"ended with {account.ended}")
    return f"Rank {rank}{where}: {', '.join(told)}."


def _keeps(asked: Asked, rank: int, name: str) -> Keep | None:
    """In a stream of many ranks, which lines are this rank's, by what stands in front of those that are known to be."""
    account = asked.matter.account(rank)
    known = [said for said in (account.telling, account.last) if said and said.source == name] if account else []
    foreign = [host for host in asked.matter.hosts if account and account.host and host != account.host]
    for habits in _HABITS:
        for said in known:
            told = strip_prefix(said.text, habits)[0]
            if told.rank == rank or (told.rank is None and told.local_rank is not None):
                return lambda text: _is_of(text, habits, rank, told, foreign)
    return None


def _is_of(text: str, habits: Habits, rank: int, known: Prefix, foreign: Sequence[str]) -> bool:
    prefix, rest = strip_prefix(text, habits)
    if not rest.strip():
        return False
    if prefix.rank is not None:
        return prefix.rank == rank
    if known.local_rank is None or prefix.local_rank != known.local_rank:
        return False
    told = _RANK.search(rest[:_HEAD])  # two nodes of a stream have the same local ranks
    return (told is None or int(told[1] or told[2]) == rank) and not any(host in rest[:_HEAD] for host in foreign)


def _is_shared(asked: Asked, rank: int, name: str) -> bool:
    """Whether more than this rank write into a log."""
    source = next((source for source in asked.matter.dossier.sources if source.name == name), None)
    return source is not None and source.ranks != [rank]


async def _of_host(asked: Asked, host: str, count: int = _LAST) -> list[Part]:
    """The node's own logs, and the most telling lines of its ranks."""
    matter = asked.matter
    accounts = [account for account in matter.dossier.ranks if account.host == host]
    began = host in asked.diagnosis.initiating.hosts
    ranks = f" It holds {phrases.ranks([account.rank for account in accounts])}." if accounts else ""
    parts: list[Part] = [Words(f"{host}{': it began there.' if began and asked.failed else ':'}{ranks}")]
    moment = asked.slots.moment(asked.end)
    own = [
        source for source in matter.dossier.sources if source.host == host and source.kind not in ("rank", "combined")
    ]
    for source in own[:_MOST]:
        if matter.logs is not None:
            lines = (
                await matter.logs.at(source.name, moment, _AROUND)
                if moment
                else await matter.logs.tail(source.name, count)
            )
            parts += [Quotes(tuple(lines), f"{source.name} ({source.kind})", run=True)] if lines else []
    shown = [
        line for line in matter.dossier.timeline if line.host == host or line.source in {source.name for source in own}
    ]
    told = [
        of_said(said, account.rank, host) for account in accounts[:_MOST] if (said := account.telling or account.last)
    ]
    known = {(line.source, line.number) for part in parts if isinstance(part, Quotes) for line in part.lines}
    told += [
        Line(line.source, line.line, line.text, line.rank, line.host, line.time) for line in shown if line.signature
    ][:_MOST]
    rest = {(line.source, line.number): line for line in told if (line.source, line.number) not in known}
    if rest:
        parts.append(Quotes(tuple(rest.values()), "What tells most"))
    if len(parts) == 1:
        parts.append(Words("No line of it is known."))
    return parts


async def _tail(asked: Asked, name: str, count: int, heading: str, keep: Keep | None) -> list[Part]:
    logs, moment = asked.matter.logs, asked.slots.moment(asked.end)
    if logs is None:
        return [Words(f"The bytes of {name} are not kept here.")]
    lines = await logs.at(name, moment, count // 2) if moment else await logs.tail(name, count, keep)
    return [Quotes(tuple(lines), heading, run=True)] if lines else [Words(f"{name} is empty, or no longer kept.")]
