"""`/diagnose history`: what a node, a user, a cause or a job did before, as far as this channel was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.digest import phrases
from bot.slack.commands import COMMAND, Answer, Invocation
from bot.slack.escape import code, moment, mrkdwn
from bot.slack.words import lines
from knowledge.causes import load_causes
from storage.history import Histories
from storage.past import UNKNOWN, Failure, Past, SeenBefore

SHOWN = 20

_SUBJECTS = {
    "node": ("node", "nodes", "host", "hosts", "machine"),
    "user": ("user", "users", "owner", "person"),
    "cause": ("cause", "causes", "reason", "failure"),
}
_OF_WORD = {word: subject for subject, words in _SUBJECTS.items() for word in words}
_FILLERS = {"of", "for", "the", "by", "on", "with", "and", "in", "from"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for; `name` is a name of which nobody said what it is."""

    node: str | None = None
    user: str | None = None
    cause: str | None = None
    name: str | None = None


def history(histories: Histories) -> Answer:
    """Return the answer to the word."""

    async def answer(asked: Invocation) -> str:
        wanted = understood(asked.arguments)
        if wanted.name is not None:
            return await _guessed(histories, wanted.name, asked.channel)
        causes = causes_called(wanted.cause) if wanted.cause is not None else None
        if causes == []:
            return _no_cause(wanted.cause or "")
        past = await histories.past(
            node=wanted.node, user=wanted.user, causes=causes, channel=asked.channel, limit=SHOWN
        )
        return _told(_subject(wanted, causes), past)

    return answer


def understood(text: str) -> Wanted:
    """Return what is asked for: `node X`, `X node`, `cause out of memory user alice`, in any order.

    >>> understood("of user alice, node gpu-n17")
    Wanted(node='gpu-n17', user='alice', cause=None, name=None)
    """
    words = [word for each in text.replace(",", " ").split() if (word := each.strip("`")).lower() not in _FILLERS]
    marks = [number for number, word in enumerate(words) if word.lower() in _OF_WORD]
    if not marks:
        return Wanted(name=" ".join(words) or None)
    found: dict[str, str] = {}
    before = words[: marks[0]]
    for start, end in zip(marks, [*marks[1:], len(words)], strict=True):
        value = " ".join(words[start + 1 : end]) or " ".join(before)
        found.setdefault(_OF_WORD[words[start].lower()], value)
    if not all(found.values()):
        return Wanted(name=next((value for value in found.values() if value), None))
    return Wanted(**found)


def causes_called(text: str) -> list[str]:
    """Return the ids of the causes that `text` names: by id, or by words of the title."""
    known = load_causes()
    if text.lower() in known:
        return [text.lower()]
    words = text.lower().replace("-", " ").split()
    named = [
        cause.id for cause in known.values() if words and _all_in(words, f"{cause.id.replace('-', ' ')} {cause.title}")
    ]
    return named or [cause.id for cause in known.values() if len(words) == 1 and cause.layer == words[0]]


def _all_in(words: Sequence[str], text: str) -> bool:
    of_title = text.lower().split()
    return all(any(each.startswith(word) for each in of_title) for word in words)


async def _guessed(histories: Histories, name: str, channel: str) -> str:
    """A name alone: a job or fingerprint, a node, a user or a cause, whichever is known here."""
    episode = await histories.named(name, channel)
    if episode is not None:
        known = episode.fingerprint if episode.cause != UNKNOWN else ""
        return _seen(episode.cause, name, await histories.seen(known, channel))
    for wanted in (Wanted(node=name), Wanted(user=name)):
        past = await histories.past(node=wanted.node, user=wanted.user, channel=channel, limit=SHOWN)
        if past.count:
            return _told(_subject(wanted, None), past)
    causes = causes_called(name)
    if causes:
        past = await histories.past(causes=causes, channel=channel, limit=SHOWN)
        return _told(_subject(Wanted(cause=name), causes), past)
    return (
        f"This channel was told of no job, node, user or cause called {code(name, 80)}. "
        f"Say it like {code(f'{COMMAND} history node gpu-n17', 80)}, {code('user alice', 40)} or {code('cause out of memory', 40)}."
    )


def _seen(cause: str, name: str, seen: SeenBefore) -> str:
    if not seen.count or seen.first is None or seen.last is None:
        return f"{code(name, 80)}: {lines.cause(cause)}. What nobody understood is not known to be the same again."
    said = [f"{code(name, 80)}: *{lines.cause(cause)}*, seen {phrases.times(seen.count)} in this channel."]
    said.append(
        f"First {moment(seen.first)}, last {moment(seen.last)}." if seen.count > 1 else f"It was {moment(seen.first)}."
    )
    if seen.nodes:
        said.append(f"Begun by {mrkdwn(phrases.listed(seen.nodes), 400)}.")
    if seen.resolution is not None:
        said.append(f"Last time {lines.resolved(seen.resolution)}, {moment(seen.resolution.at)}.")
    else:
        said.append("Nobody has resolved it so far.")
    return "\n".join(said)


def _subject(wanted: Wanted, causes: Sequence[str] | None) -> str:
    parts = [
        f"node {mrkdwn(wanted.node, 100)}" if wanted.node else "",
        f"user {mrkdwn(wanted.user, 60)}" if wanted.user else "",
        phrases.listed([lines.cause(cause) for cause in causes[:3]]) if causes else "",
        f"and {len(causes) - 3} causes more" if causes and len(causes) > 3 else "",
    ]
    return ", ".join(part for part in parts if part)


def _told(subject: str, past: Past) -> str:
    of = f" of {subject}" if subject else ""
    if not past.count:
        return f"This channel was told of no failure{of}."
    newest = f", the newest {len(past.failures)}:" if past.count > len(past.failures) else ":"
    head = [f"{phrases.counted(past.count, 'failure')}{of}{newest}"]
    return lines.fitted(head, [f"• {_line(failure)}" for failure in past.failures], count=past.count)


def _line(failure: Failure) -> str:
    where = f" on {mrkdwn(', '.join(failure.initiating[:2]), 100)}" if failure.initiating else ""
    parts = [
        moment(failure.at),
        f"{lines.job(failure)}{f' of {mrkdwn(failure.owner, 60)}' if failure.owner else ''}",
        f"{lines.cause(failure.cause)}{where}",
        lines.resolved(failure.resolution) if failure.resolution else failure.state,
    ]
    return " · ".join(part for part in parts if part)


def _no_cause(text: str) -> str:
    return f"I know no cause called {code(text, 80)}. Try words of its title, such as {code('out of memory', 40)} or {code('link down', 40)}."
