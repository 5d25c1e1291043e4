"""The rules of the settings file: `[[routes]]` and `[routing]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from bot.routing.channels import ChannelId
from bot.routing.quiet import Periods
from bot.routing.severity import Bounds, Severity
from bot.section import Section
from knowledge.causes import load_causes

CONDITIONS = ("cluster", "partition", "account", "user", "job", "cause", "layer")
"""What a rule can look at, besides the severity, in the order in which it does."""


def _one_or_several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _some_cause(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return _of_those(patterns, set(load_causes()), "cause", "docs/catalogue")


def _some_layer(patterns: tuple[str, ...]) -> tuple[str, ...]:
    layers = {cause.layer for cause in load_causes().values()}
    return _of_those(patterns, layers, "layer of a cause", ", ".join(sorted(layers)))


def _of_those(patterns: tuple[str, ...], known: set[str], what: str, hint: str) -> tuple[str, ...]:
    for pattern in patterns:
        if not any(fnmatchcase(word, pattern) for word in known):
            raise ValueError(f"no {what} is called {pattern!r}; known: {hint}")
    return patterns


def _ids(pattern: str) -> str:
    if not re.fullmatch(r"[A-Z0-9*?]{1,80}", pattern):
        raise ValueError("give ids of channels (C…, G…) or patterns of them, such as C0TEAM*")
    return pattern


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(_one_or_several), Field(min_length=1)]
Channels = Annotated[tuple[ChannelId, ...], BeforeValidator(_one_or_several)]


class Route(Section):
    """Where the failures go that fit all of its conditions; `*` and `?` stand for any text and any character.

    The first route that fits decides, unless it says `continue`. An empty list of channels means: tell nobody.
    """

    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    name: str = Field(default="", max_length=100)
    cluster: Patterns | None = None
    partition: Patterns | None = Field(default=None, validation_alias=AliasChoices("partition", "namespace"))
    account: Patterns | None = Field(default=None, validation_alias=AliasChoices("account", "team"))
    user: Patterns | None = None
    job: Patterns | None = None  # its name
    cause: Annotated[Patterns, AfterValidator(_some_cause)] | None = None
    layer: Annotated[Patterns, AfterValidator(_some_layer)] | None = None
    severity: Severity | None = None  # at least
    channels: Channels
    goes_on: bool = Field(default=False, validation_alias="continue")
    always: bool = False  # even where the job names channels of its own
    quiet: Periods = ()

    @model_validator(mode="before")
    @classmethod
    def _one_name(cls, given: Any) -> Any:
        for name, other in (("partition", "namespace"), ("account", "team")):
            if isinstance(given, dict) and name in given and other in given:
                raise ValueError(f"{name} and {other} mean the same; give one of them")
        return given

    @model_validator(mode="after")
    def _does_something(self) -> Route:
        if self.goes_on and not self.channels:
            raise ValueError("a route without channels that says continue does nothing")
        return self

    def conditions(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield what it asks for, besides the severity."""
        for name in CONDITIONS:
            if (patterns := getattr(self, name)) is not None:
                yield name, patterns

    def covers(self, other: Route) -> bool:
        """Return whether whatever fits `other` surely fits this one, too."""
        theirs = dict(other.conditions())
        if self.severity and not (other.severity and other.severity.reaches(self.severity)):
            return False
        return all(
            name in theirs and ("*" in patterns or set(theirs[name]) <= set(patterns))
            for name, patterns in self.conditions()
        )


class Routing(Section):
    """What holds for all routes."""

    override_allow: tuple[Annotated[str, AfterValidator(_ids)], ...] | None = None  # default: all in the settings
    quiet: dict[ChannelId, Periods] = Field(default_factory=dict)
    many_ranks: Annotated[int, Field(ge=1)] = 64
    few_ranks: Annotated[int, Field(ge=0)] = 8
    storm: Annotated[int, Field(ge=2)] = 5

    @model_validator(mode="after")
    def _in_order(self) -> Routing:
        if self.few_ranks >= self.many_ranks:
            raise ValueError("few_ranks must be less than many_ranks")
        return self

    @property
    def bounds(self) -> Bounds:
        """The numbers that decide how severe a failure is."""
        return Bounds(self.many_ranks, self.few_ranks, self.storm)
