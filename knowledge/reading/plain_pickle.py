"""Pickles from strangers: a machine of our own that knows containers and scalars, and not one instruction that runs code.

Python's own unpickler looks up and calls whatever a file names, and its memo and stack can be made to eat all memory.
Here a file may do nothing but build plain values, and few enough of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

Plain = Any  # None, bool, int, float, str, bytes, and list, tuple, dict, set, frozenset of them

MAX_STEPS = 12_000_000  # instructions of one file
MAX_CONTAINERS = 1_000_000
MAX_DEPTH = 64  # containers inside each other
_LONGEST_INTEGER = 16  # bytes
_MOST_HASHED = 1 << 53  # integers below are their own hashes

_CODE = {
    "c": "GLOBAL", "\x93": "STACK_GLOBAL", "R": "REDUCE", "b": "BUILD", "i": "INST", "o": "OBJ", "\x81": "NEWOBJ",
    "\x92": "NEWOBJ_EX", "P": "PERSID", "Q": "BINPERSID", "\x82": "EXT1", "\x83": "EXT2", "\x84": "EXT4",
}  # fmt: skip


class RefusedPickleError(Exception):
    """The file wants more than plain values, or is damaged; the message says which."""


class _Mark:
    """Where a run of items began on the stack."""


_MARK = _Mark()


def load(data: bytes) -> Plain:
    """Build the one plain value of a pickle of protocol 2 or later. Raises RefusedPickleError, and nothing else."""
    try:
        return _Machine(data).run()
    except RefusedPickleError:
        raise
    except (struct.error, IndexError, KeyError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise RefusedPickleError("it is damaged or cut off") from error


class _Machine:
    """The stack machine. `_depths` holds how deep each container on the stack is, by its identity."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, int] = {}
        self._kept: list[Any] = []  # containers stay alive, so that their identities stay theirs

    def run(self) -> Plain:
        data, actions = self._data, _ACTIONS
        for _ in range(MAX_STEPS):
            code = data[self._at]
            self._at += 1
            if code == _STOP:
                (value,) = self._stack
                if value is _MARK:
                    raise RefusedPickleError("it is damaged or cut off")
                return value
            action = actions.get(code)
            if action is None:
                raise RefusedPickleError(_why(code))
            action(self)
        raise RefusedPickleError(f"it has more than {MAX_STEPS} instructions")

    # -- reading arguments

    def take(self, size: int) -> bytes:
        """The next bytes; IndexError where there are fewer."""
        end = self._at + size
        if end > len(self._data):
            raise IndexError
        found = self._data[self._at : end]
        self._at = end
        return found

    def byte(self) -> int:
        """The next byte, as a number."""
        self._at += 1
        return self._data[self._at - 1]

    def number(self, size: int) -> int:
        """One little-endian number without sign."""
        return int.from_bytes(self.take(size), "little")

    def integer(self) -> int:
        """LONG1: a length, then two's complement."""
        size = self.number(1)
        if size > _LONGEST_INTEGER:
            raise RefusedPickleError(f"it has a number of {size} bytes")
        return int.from_bytes(self.take(size), "little", signed=True)

    def text(self, size: int) -> str:
        """A length of `size` bytes, then UTF-8."""
        return self.take(self.number(size)).decode("utf-8", "replace")

    # -- stack and memo

    def push(self, value: Any) -> None:
        """Put a scalar."""
        self._stack.append(value)

    def remember(self, index: int | None) -> None:
        """Memo the top of the stack."""
        top = self._stack[-1]
        self._memo[len(self._memo) if index is None else index] = top

    def recall(self, index: int) -> None:
        """Push what was memoed."""
        self._stack.append(self._memo[index])

    def since_mark(self) -> list[Any]:
        """Take the items above the last mark off the stack, and the mark."""
        stack = self._stack
        start = len(stack) - 1
        while stack[start] is not _MARK:
            start -= 1
            if start < 0:
                raise IndexError
        items = stack[start + 1 :]
        del stack[start:]
        return items

    def make(self, container: Any, items: list[Any]) -> None:
        """Put a container that was made of `items`."""
        if len(self._kept) >= MAX_CONTAINERS:
            raise RefusedPickleError(f"it builds more than {MAX_CONTAINERS} containers")
        self._kept.append(container)
        self._stack.append(container)
        self._hold(container, items)

    def tuple_of(self, count: int) -> None:
        """Make a tuple of the topmost items."""
        if count > len(self._stack):
            raise IndexError
        items = self._stack[-count:]
        del self._stack[-count:]
        self.make(tuple(items), items)

    def extend(self, items: list[Any]) -> None:
        """Append to the list, or add to the set, on top of the stack."""
        container = self._stack[-1]
        self._hold(container, items)
        if isinstance(container, list):
            container.extend(items)
        elif isinstance(container, set):
            container.update(_hashed(items))
        else:
            raise TypeError

    def assign(self, items: list[Any]) -> None:
        """Set keys of the dictionary on top of the stack: key, value, key, value …"""
        container = self._stack[-1]
        if not isinstance(container, dict) or len(items) % 2:
            raise TypeError
        self._hold(container, items)
        container.update(zip(_hashed(items[::2]), items[1::2], strict=True))

    def _hold(self, container: Any, items: list[Any]) -> None:
        """Note that `container` now holds `items`."""
        depths = self._depths
        depth = depths.get(id(container), 1)
        for item in items:
            if item is _MARK or item is container:
                raise TypeError
            inner = depths.get(id(item))
            if inner is not None and inner >= depth:
                depth = inner + 1
        if depth > MAX_DEPTH:
            raise RefusedPickleError(f"it nests more than {MAX_DEPTH} deep")
        depths[id(container)] = depth

    def pop_one(self) -> list[Any]:
        """The topmost item, off the stack."""
        return [self._stack.pop()]

    def pop_two(self) -> list[Any]:
        """The two topmost items, off the stack."""
        items = self._stack[-2:]
        del self._stack[-2:]
        return items


def _hashed(keys: list[Any]) -> list[Any]:
    """The keys, if hashing them is quick: a tuple that holds another one many times is hashed anew each time, and
    numbers beyond the hash's own range can be made to share one."""
    for key in keys:
        if not (isinstance(key, str | bytes | float | None) or (isinstance(key, int) and abs(key) < _MOST_HASHED)):
            raise RefusedPickleError("it has a key that is neither text nor a plain number")
    return keys


def _why(code: int) -> str:
    name = _CODE.get(chr(code))
    if name:
        return f"it holds the instruction {name}, which runs code; a flight recorder writes plain values only"
    return f"it holds the instruction 0x{code:02x}, which no flight recorder writes"


_STOP = ord(".")


def _table() -> dict[int, Callable[[_Machine], object]]:
    table: dict[str, Callable[[_Machine], object]] = {
        "\x80": lambda m: m.take(1),  # PROTO
        "\x95": lambda m: m.take(8),  # FRAME
        "N": lambda m: m.push(None),
        "\x88": lambda m: m.push(True),
        "\x89": lambda m: m.push(False),
        "K": lambda m: m.push(m.byte()),
        "M": lambda m: m.push(m.number(2)),
        "J": lambda m: m.push(int.from_bytes(m.take(4), "little", signed=True)),
        "\x8a": lambda m: m.push(m.integer()),
        "G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        "\x8c": lambda m: m.push(m.text(1)),
        "X": lambda m: m.push(m.text(4)),
        "\x8d": lambda m: m.push(m.text(8)),
        "U": lambda m: m.push(m.take(m.number(1))),
        "T": lambda m: m.push(m.take(m.number(4))),
        "C": lambda m: m.push(m.take(m.number(1))),
        "B": lambda m: m.push(m.take(m.number(4))),
        "(": lambda m: m.push(_MARK),
        "]": lambda m: m.make([], []),
        "}": lambda m: m.make({}, []),
        ")": lambda m: m.make((), []),
        "\x8f": lambda m: m.make(set(), []),
        "t": lambda m: _make_of_marked(m, tuple),
        "l": lambda m: _make_of_marked(m, list),
        "\x85": lambda m: m.tuple_of(1),
        "\x86": lambda m: m.tuple_of(2),
        "\x87": lambda m: m.tuple_of(3),
        "a": lambda m: m.extend(m.pop_one()),
        "e": lambda m: m.extend(m.since_mark()),
        "\x90": lambda m: m.extend(m.since_mark()),
        "s": lambda m: m.assign(m.pop_two()),
        "u": lambda m: m.assign(m.since_mark()),
        "q": lambda m: m.remember(m.byte()),
        "r": lambda m: m.remember(m.number(4)),
        "\x94": lambda m: m.remember(None),
        "h": lambda m: m.recall(m.byte()),
        "j": lambda m: m.recall(m.number(4)),
    }
    return {ord(code): action for code, action in table.items()}


def _make_of_marked(machine: _Machine, kind: Callable[[list[Any]], Any]) -> None:
    items = machine.since_mark()
    machine.make(kind(items), items)


_ACTIONS = _table()
