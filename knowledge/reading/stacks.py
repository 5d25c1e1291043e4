"""Stacks of living processes in a log: faulthandler's and py-spy's. They show where each rank waits."""

from __future__ import annotations

import re

from knowledge.reading.evidence import Place, Stack
from knowledge.reading.marks import STACK

_FRAME = re.compile(r'^\s+File "[^"]+", line \d+ in (?P<function>\S+)')
_MAX = 60


class StackReader:
    """Assembles the stacks of one stream. A dump has several threads; those that train are told by their frames."""

    def __init__(self) -> None:
        self._place: Place | None = None
        self._functions: list[str] = []

    @property
    def idle(self) -> bool:
        """Whether no stack is being read."""
        return self._place is None

    def feed(self, text: str, place: Place) -> Stack | None:
        """Take one line; return the stack that it ends, if any."""
        finished = None
        if STACK in text:
            finished = self.finish()
            self._place, self._functions = place, []
        elif self._place is not None:
            found = _FRAME.match(text)
            if found and len(self._functions) < _MAX:
                self._functions.append(found["function"])
            elif not found:
                finished = self.finish()
        return finished

    def finish(self) -> Stack | None:
        """End the stack that is being read."""
        place, functions = self._place, self._functions
        self._place, self._functions = None, []
        return Stack(place, functions) if place is not None and functions else None
