"""Which ranks only followed, and how we know."""

from __future__ import annotations

from bot.answers.asked import Asked, telling_lines, unique
from bot.answers.reply import Part, Quotes, Reply, Words, of_evidence
from bot.slack import phrases
from knowledge.dossier import Part as Role
from knowledge.dossier import RankAccount

_SHOWN = 4


async def collateral(asked: Asked) -> Reply:
    """The ranks that only followed, with their own words; or what is known of the one that was asked for."""
    diagnosis, dossier = asked.diagnosis, asked.matter.dossier
    if not asked.failed:
        return asked.reply(Words(f"{asked.verdict()} So there is no collateral."))
    if asked.slots.ranks:
        return _named(asked)
    accounts = [account for account in dossier.ranks if account.part is Role.COLLATERAL]
    silent = [account.rank for account in dossier.ranks if account.part is Role.SILENT]
    count = diagnosis.collateral.count
    if not diagnosis.initiating.ranks:
        where = phrases.where(diagnosis.initiating)
        told = (
            f"It began on {where}; which rank is not known, so none is called collateral."
            if where
            else ("No single rank is known to have begun it, so none can be called collateral.")
        )
        others = [of_evidence(line) for line in diagnosis.evidence[:_SHOWN]]
        return asked.reply(
            Words(f"{asked.verdict()} {told}"), Quotes(tuple(others), "What is known") if others else None
        )
    who = phrases.where(diagnosis.initiating)
    if not count:
        return asked.reply(Words(f"It began on {who}. No other rank is known."), Quotes(asked.proofs()))
    listed = f" ({phrases.ranks(diagnosis.collateral.ranks)})" if diagnosis.collateral.ranks else ""
    parts: list[Part] = [
        Words(f"{count} {'rank' if count == 1 else 'ranks'}{listed} only followed; it began on {who}."),
        Words("How we know: their own words tell of others' failure or of waiting, and of no trouble of their own."),
    ]
    if silent:
        parts.append(Words(f"Of {phrases.ranks(silent)} nothing has arrived: counted as collateral, but not heard."))
    own = {source.name for source in dossier.sources if source.kind in ("rank", "combined")}
    accounts.sort(key=lambda account: account.telling is None or account.telling.source not in own)
    suffering = unique(telling_lines([account for account in accounts if account.telling], _SHOWN))
    words = suffering or unique(telling_lines(accounts, _SHOWN))
    if words:
        parts.append(
            Quotes(
                words, "Their own words" if suffering else "Their last lines", folded=max(0, len(accounts) - len(words))
            )
        )
    parts.append(Quotes(asked.proofs(2), "Where it began"))
    return asked.reply(*parts)


def _named(asked: Asked) -> Reply:
    parts: list[Part] = []
    for rank in asked.slots.ranks[:4]:
        account = asked.matter.account(rank)
        parts.append(Words(_sentence(asked, rank, account)))
        lines = telling_lines([account], 1) if account else ()
        if lines:
            parts.append(Quotes(lines))
    return asked.reply(*parts, Quotes(asked.proofs(2), "Where it began"))


def _sentence(asked: Asked, rank: int, account: RankAccount | None) -> str:
    began = asked.diagnosis.initiating
    where = phrases.where(began)
    if rank in began.ranks:
        return f"No: rank {rank} is not collateral, it began there. {asked.verdict()}"
    if account is None:
        return f"There is no rank {rank} in what has arrived."
    if account.part is Role.COLLATERAL:
        return f"Yes: rank {rank} is collateral, it only followed. It began on {where}."
    if account.part is Role.SILENT:
        return f"Nothing of rank {rank} has arrived, so its own words cannot acquit it." + (
            f" It began on {where}." if where else ""
        )
    return f"Whether rank {rank} only followed is not known: nobody can be named as the one that began it."
