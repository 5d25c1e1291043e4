"""Regexes for other programs: the catalogue's, rewritten into what RE2 (Loki, mtail) and GNU `grep -E` both read alike.

Wide bounds, as in `.{0,120}`, become open: they keep a backtracking engine fast, and make these slow. Groups that only
look around, which neither has, are left out; the result then matches more than the entry does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_parser: Any = import_module("re._parser")  # no public module hands out the tree; tests go through every entry
_op: Any = import_module("re._constants")

_SPECIAL = frozenset(r"\.[]()*+?{}|^$")
_MAX_REPEAT = 16  # above this a bound becomes open
_CLASSES = {
    "CATEGORY_DIGIT": "0-9",
    "CATEGORY_WORD": "[:alnum:]_",
    "CATEGORY_SPACE": "[:space:]",
}
_NEGATED = {"CATEGORY_NOT_DIGIT": "0-9", "CATEGORY_NOT_WORD": "[:alnum:]_", "CATEGORY_NOT_SPACE": "[:space:]"}


class Untranslatable(Exception):  # noqa: N818 - named for what it tells
    """A construct that has no counterpart; the message names it."""


@dataclass(frozen=True, slots=True)
class PlainRegex:
    """A regex, and whether it matches exactly what the original did."""

    text: str
    exact: bool


def translate(regex: str) -> PlainRegex:
    """Rewrite one regex of Python's `re`. Raises Untranslatable."""
    tree = _parser.parse(regex)
    writer = _Writer(ignore_case=bool(tree.state.flags & re.IGNORECASE))
    text = writer.whole(list(tree))
    return PlainRegex(text, writer.exact)


def any_of(regexes: Sequence[str]) -> PlainRegex:
    """Rewrite several regexes as one with alternatives. Raises Untranslatable."""
    parts = [translate(regex) for regex in regexes]
    text = parts[0].text if len(parts) == 1 else "|".join(f"({part.text})" for part in parts)
    return PlainRegex(text, all(part.exact for part in parts))


class _Writer:
    """Writes a parsed regex; notices where it has to leave something out."""

    def __init__(self, *, ignore_case: bool) -> None:
        self.exact = True
        self.ignore_case = ignore_case

    def whole(self, nodes: list[Any]) -> str:
        """The top of the tree. "Not followed by x" is sayable there where only what may be missing comes after it."""
        for place, (operation, argument) in enumerate(nodes):
            if operation is _op.ASSERT_NOT and argument[0] == 1 and all(map(_may_be_missing, nodes[place + 1 :])):
                forbidden = list(argument[1])
                if len(forbidden) == 1 and forbidden[0][0] in (_op.LITERAL, _op.IN):
                    return f"{self.sequence(nodes[:place])}({self.other_than(*forbidden[0])}|$)"
        return self.sequence(nodes)

    def other_than(self, operation: Any, argument: Any) -> str:
        if operation is _op.LITERAL:
            if argument == ord("\n"):  # no line holds one
                return "."
            return self.set([(_op.NEGATE, None), (_op.LITERAL, argument)])
        return self.set([(_op.NEGATE, None), *argument])

    def sequence(self, nodes: Any) -> str:
        return "".join(self.node(operation, argument) for operation, argument in nodes)

    def node(self, operation: Any, argument: Any) -> str:
        if operation is _op.LITERAL:
            character = chr(argument)
            either = self.ignore_case and character.swapcase() != character
            return f"[{character}{character.swapcase()}]" if either else _literal(character)
        if operation is _op.NOT_LITERAL:
            return self.other_than(_op.LITERAL, argument)
        if operation is _op.ANY:
            return "."
        if operation is _op.IN:
            return self.set(argument)
        if operation is _op.BRANCH:
            return "(" + "|".join(self.sequence(branch) for branch in argument[1]) + ")"
        if operation is _op.SUBPATTERN:
            inner = list(argument[3])
            alternatives = len(inner) == 1 and inner[0][0] is _op.BRANCH  # these bring their own parentheses
            return self.sequence(inner) if alternatives else f"({self.sequence(inner)})"
        if operation in (_op.MAX_REPEAT, _op.MIN_REPEAT):
            return self.repeat(*argument)
        if operation is _op.AT:
            return self.position(argument)
        if operation in (_op.ASSERT, _op.ASSERT_NOT):
            self.exact = False
            return ""
        raise Untranslatable(f"{operation} has no counterpart in RE2 and grep")

    def repeat(self, least: int, most: Any, inner: Any) -> str:
        body = self.sequence(inner)
        if not body:
            return ""
        if len(inner) != 1 or inner[0][0] not in (
            _op.LITERAL,
            _op.NOT_LITERAL,
            _op.ANY,
            _op.IN,
            _op.SUBPATTERN,
            _op.BRANCH,
        ):
            body = f"({body})"
        if most is _op.MAXREPEAT or most > _MAX_REPEAT:
            count = {0: "*", 1: "+"}.get(least, f"{{{least},}}")
        elif (least, most) == (0, 1):
            count = "?"
        elif least == most:
            count = "" if least == 1 else f"{{{least}}}"
        else:
            count = f"{{{least},{most}}}"
        return body + count

    def position(self, where: Any) -> str:
        if where is _op.AT_BEGINNING:
            return "^"
        if where is _op.AT_END:
            return "$"
        if where is _op.AT_BOUNDARY:
            return r"\b"
        raise Untranslatable(f"{where} has no counterpart in RE2 and grep")

    def set(self, members: Any) -> str:
        negated = bool(members) and members[0][0] is _op.NEGATE
        singles, ranges = "", ""
        for operation, argument in members[negated:]:
            if operation is _op.LITERAL:
                singles += chr(argument) + (chr(argument).swapcase() if self.ignore_case else "")
            elif operation is _op.RANGE:
                span = f"{chr(argument[0])}-{chr(argument[1])}"
                ranges += span + (span.swapcase() if self.ignore_case and span.isascii() and span[0].isalpha() else "")
            elif operation is _op.CATEGORY and str(argument) in _CLASSES:
                ranges += _CLASSES[str(argument)]
            elif operation is _op.CATEGORY and str(argument) in _NEGATED and len(members) == 1 + negated:
                return f"[{'' if negated else '^'}{_NEGATED[str(argument)]}]"
            else:
                raise Untranslatable(f"{argument} inside brackets has no counterpart in grep")
        return _bracket(singles, ranges, negated=negated)


def _may_be_missing(node: Any) -> bool:
    operation, argument = node
    return operation in (_op.MAX_REPEAT, _op.MIN_REPEAT) and argument[0] == 0


def _literal(character: str) -> str:
    if character == "\n":
        raise Untranslatable("a line break cannot stand in one line")
    return f"\\{character}" if character in _SPECIAL else character


def _bracket(singles: str, ranges: str, *, negated: bool) -> str:
    """A set in which no character needs a backslash, since grep reads that as one more character."""
    singles = singles.replace("\n", "")
    if "\\" in singles:
        raise Untranslatable("a backslash inside brackets means different things to RE2 and grep")
    first = "]" if "]" in singles else ""
    last = ("^" if "^" in singles else "") + ("-" if "-" in singles else "")
    middle = "".join(dict.fromkeys(character for character in singles if character not in "]^-"))
    if not negated and not first + ranges + middle and last.startswith("^"):
        return r"\^" if last == "^" else "[-^]"
    return f"[{'^' if negated else ''}{first}{ranges}{middle}{last}]"
