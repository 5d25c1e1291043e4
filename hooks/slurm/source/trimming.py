"""Trimming: what is kept of a log that is larger than its budget."""

import bisect
import collections
import itertools
import math
import os
import re
import time
from typing import AbstractSet, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

Read = Callable[[int, int], bytes]  # what stands in the file from one place to another
Range = Tuple[int, int]  # of bytes: where it starts, and where what follows it does

SUSPICIOUS, PHRASES = (
    [word.encode() for word in words.split(",")] for words in (
        "error,exception,traceback,fatal,fault,abort,assert,panic,kill,oom,signal,terminat,timeout,unreachable,refused,"
        "corrupt,cancel,xid,nvrm,fail,stuck,hang,lost,watchdog,slurmstepd,denied,interrupt,invalid,mismatch,missing,"
        "cannot,unable,truncat,bad_alloc,sigterm,sigbus,sigsegv,sigabrt,sigfpe,sigill,conflict,closed,disconnect,throttl,violation,unhealthy,unavailable,"
        "notready,taint,disrupt,dereferenc,expel,evict,preempt,unaligned,slowdown,"
        "reject,stall,exceed,reboot,duplicate,exited,dead,quota,permission,different,crash,containment,nan,srun",
        "out of memory,timed out,reset by peer,broken pipe,no space,core dumped,nccl warn,not found,what():,could not,"
        "did not,does not,n't ,no such,not enough,not consistent,not built,not support,not ready,not connected,not called,not respon,"
        "low on ,no device, reached,blocked for,no module,no usable,link down,is down,read-only,stale file,too long,too many",
    )
)  # fmt: skip
CERTAIN = re.compile(  # healthy jobs have few of these
    rb"Traceback \(most recent|[a-z_](?:Error|Exception|Interrupt)\b|\b(?:ERROR|CRITICAL|Aborted|Killed|S?Xid|NVRM)\b"
    rb"|\b(?:[Ff]atal|FATAL|[Pp]anic|[Ss]egmentation fault|[Bb]us error|core dumped|No space left|terminate called)\b"
    rb"|[Oo]ut[ _][Oo]f[ _][Mm]emory|oom[-_ ]kill|illegal memory access|what\(\): |CUDA error|NCCL WARN|slurmstepd|srun: error"
)
DIGITS = b"0123456789abcdefx."
BLOCK = 1 << 18
_WORD = re.compile(rb"[A-Za-z_]{3,40}")
COUNTED = 4 << 20  # bytes left out whose lines are counted; the lines of more are estimated
LONG = 2048  # bytes of a line that is searched in pieces
MOST_KINDS = 16384
MOST_OF_A_WORD = (
    16  # kinds of lines that are remembered of each suspicious word, both of the first and of the last ones
)
MOST_WORDS = 256  # suspicious words in one block
CONTEXT = 4096


def trim(
    log: int,
    size: int,
    budget: int,
    scan: int,
    fit: Callable[[bytes, bytes], bytes] = lambda before, text: text,
    until: Optional[float] = None,
) -> bytes:
    """At most about `budget` bytes of the open file: all of it, or its head, its tail and what stands out between.

    What is left out is marked by a line of its own. At most `scan` bytes before the tail are searched, none of them
    after the time `until`. `fit` is told what stands before a part, and may shorten the part's beginning.
    """

    def read(start: int, end: int) -> bytes:
        return os.pread(log, max(0, end - start), start)

    if size <= budget:
        return read(0, size)
    head = _whole_lines(read(0, budget // 8), end=True)
    tail = _whole_lines(read(size - budget * 3 // 8, size), start=True)
    search = Search(read, max(len(head), size - len(tail) - scan), size - len(tail), until)
    windows = search.windows(budget // 2)
    spare = budget // 2 - sum(end - start for start, end in windows)
    tail = _whole_lines(read(max(len(head), size - budget * 3 // 8 - max(0, spare)), size), start=True)
    places = _joined([(0, len(head))] + windows + [(size - len(tail), size)])
    pieces: List[bytes] = []
    at = 0
    for start, end in places:
        if start > at:
            gap, missing = _lines_in(read, at, start), start - at
            if pieces and not pieces[-1].endswith(b"\n"):
                pieces.append(b"\n")
            pieces.append(b"[firstfault: %s lines (%d bytes) left out]\n" % (gap, missing))
            pieces.append(fit(read(max(0, start - CONTEXT), start), read(start, end)))
        else:
            pieces.append(read(at, end))
        at = max(at, end)
    return b"".join(pieces)


def _whole_lines(text: bytes, start: bool = False, end: bool = False) -> bytes:
    """Without the torn line at the start or end; a line too long for that is torn at a space, never inside a word."""
    if start:
        cut = text.find(b"\n", 0, len(text) // 2)
        cut = cut if cut >= 0 else len(re.split(rb"\s", text, maxsplit=1)[0])
        text = text[cut + 1 :]
    if end:
        cut = text.rfind(b"\n", len(text) // 2)
        text = text[: (cut if cut >= 0 else max(map(text.rfind, (b" ", b"\t", b"\r", b"\n")))) + 1]
    return text


def _lines_in(read: Read, start: int, end: int) -> bytes:
    if end - start > COUNTED:
        sample = read(start, start + BLOCK)
        return b"about %d" % (sample.count(b"\n") * (end - start) // max(1, len(sample)))
    return b"%d" % sum(read(at, min(at + BLOCK, end)).count(b"\n") for at in range(start, end, BLOCK))


class Kind:
    """Lines that differ in nothing but numbers: how many there are, and where the first and the last one stand."""

    __slots__ = ("certain", "count", "first", "last", "words")

    def __init__(self, words: Tuple[bytes, ...], certain: bool) -> None:
        self.words, self.certain, self.count = words, certain, 0
        self.first: Optional[int] = None
        self.last: Optional[int] = None


class Search:
    """What stands out in a part of a file: suspicious lines, the rarer their kind and the fewer kinds with the same words
    the better, and lines that are just rare. It is read from its end, since a job dies of what it did last."""

    def __init__(self, read: Read, start: int, end: int, until: Optional[float] = None) -> None:
        self.read, self.start, self.end = read, start, end
        self.kinds: Dict[bytes, Kind] = {}
        self.words: "collections.Counter[bytes]" = collections.Counter()
        self.plain = True
        self.dull: Set[bytes] = set()
        self.innocent: Set[bytes] = set()
        while end > start and (until is None or time.time() < until):
            low = max(start, end - BLOCK)
            block = read(low, end)
            torn = block.find(b"\n", 0, -1) + 1 if low > start else 0
            self._look_at(low + torn, block[torn:])
            end = low + torn

    def _look_at(self, at: int, block: bytes) -> None:
        block = block.replace(b"\r", b"\n")
        lines = block.split(b"\n")
        if max(map(len, lines)) > LONG:
            block = _in_pieces(block)
            lines = block.split(b"\n")
        kinds = block.translate(None, DIGITS).split(b"\n")
        counts = collections.Counter(kinds)
        counts.pop(b"", None)
        fresh = [kind for kind in counts if kind not in self.kinds and kind not in self.dull]
        if fresh:
            examples = dict(zip(kinds, lines))
            self._learn(fresh, [examples[kind] for kind in fresh])
        wanted: Dict[bytes, Kind] = {}
        for kind, known in ((kind, self.kinds[kind]) for kind in counts if kind in self.kinds):
            known.count += counts[kind]
            if known.words or known.count < 4:
                wanted[kind] = known
        if wanted:
            numbers = range(len(kinds))
            first, last = dict(zip(reversed(kinds), reversed(numbers))), dict(zip(kinds, numbers))
            starts = list(itertools.accumulate([at] + [len(line) + 1 for line in lines]))
            for kind, known in wanted.items():
                known.first = starts[first[kind]]
                known.last = starts[last[kind]] if known.last is None else known.last

    def _learn(self, kinds: Sequence[bytes], lines: Sequence[bytes]) -> None:
        """Remember new kinds of lines, of each of which there is an example; of a word in a great many of them some."""
        text = b"\n".join(lines)
        lowered = text.lower()
        found: Dict[int, Tuple[bytes, ...]] = {}
        starts = list(itertools.accumulate([0] + [len(line) + 1 for line in lines]))
        words = collections.Counter(_WORD.findall(text))
        suspicious = _suspicious(words.keys() - self.innocent)
        self.innocent.update(words.keys())
        self.innocent.difference_update(suspicious)
        suspicious += [phrase for phrase in PHRASES if phrase in lowered]
        for word in sorted(suspicious, key=words.__getitem__)[:MOST_WORDS]:
            where, seen = (lowered if word in PHRASES else text), 0
            at = where.find(word)
            while at >= 0 and seen < 2 * MOST_OF_A_WORD:
                number = bisect.bisect_right(starts, at) - 1
                found[number] = found.get(number, ()) + (word,)
                seen, at = seen + 1, where.find(word, starts[number + 1])
            self.words[word] += max(words[word], seen)
        for number, kind in enumerate(kinds):
            if number in found:
                self.kinds[kind] = Kind(found[number], CERTAIN.search(lines[number]) is not None)
            elif self.plain:
                self.kinds[kind] = Kind((), False)
            else:
                self.dull.add(kind)
        for known in (self.dull, self.innocent):
            if len(known) > 4 * MOST_KINDS:
                known.clear()
        if len(self.kinds) > MOST_KINDS:
            self._forget(kinds)

    def _forget(self, newest: Iterable[bytes]) -> None:
        """Of lines that are all different, keep the first and the last ones of each suspicious word, and the newest."""
        by_word: Dict[bytes, List[Tuple[int, bytes]]] = collections.defaultdict(list)
        kept = set(newest)
        for kind, known in self.kinds.items():
            if known.first is not None:
                word = min(known.words, key=self.words.__getitem__) if known.words else b""
                by_word[word].append((known.first, kind))
        self.plain = self.plain and len(by_word[b""]) < MOST_KINDS // 2
        kept.update(kind for _, kind in by_word.pop(b"") if self.plain)
        for places in by_word.values():
            places.sort()
            kept.update(kind for _, kind in places[:MOST_OF_A_WORD] + places[-MOST_OF_A_WORD:])
        self.kinds = {kind: known for kind, known in self.kinds.items() if kind in kept}
        if len(self.words) > MOST_KINDS:
            self.words = collections.Counter(dict(self.words.most_common(MOST_KINDS // 2)))

    def windows(self, budget: int) -> List[Range]:
        """Ranges around what stands out most, in order; together at most about `budget` bytes."""
        before, after = min(512, budget // 32), min(2048, budget // 8)
        ranked: List[Tuple[float, int]] = []
        for known in self.kinds.values():
            if known.first is None or known.last is None:
                continue  # plain lines of which there were many at once
            if known.words:
                rarest = min(self.words[word] for word in known.words) or 1
                score = (0 if known.certain else 4) + math.log2(rarest) + math.log2(known.count) / 2
            elif self.plain and known.count < 4:
                score = 8.0
            else:
                continue
            ranked += [(score, known.first)] + ([(score + 2, known.last)] if known.last != known.first else [])
        # Among equals those at the beginning and those at the end take turns.
        turns = zip(sorted(ranked), sorted(ranked, key=lambda one: (one[0], -one[1])))
        chosen: List[Range] = []
        used = 0
        for score, place in itertools.chain.from_iterable(turns):
            if used >= budget:
                break
            if any(low <= place and place + before < high for low, high in chosen):
                continue
            share = 1 if score < 8 else 4
            low, high = max(self.start, place - before // share), min(self.end, place + after // share)
            used += high - low
            chosen.append((low, high))
        places, at = [], self.start
        for low, high in _joined(chosen):
            whole = _whole_lines(self.read(low, high), start=low > at)
            low = high - len(whole)
            whole = _whole_lines(whole, end=high < self.end)
            if whole:
                places.append((low, low + len(whole)))
                at = low + len(whole)
        return places


def _joined(ranges: Iterable[Range]) -> List[Range]:
    joined: List[Range] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def _suspicious(words: AbstractSet[bytes]) -> List[bytes]:
    """Those with a part that is suspicious. To search all for one part after the other is the fastest."""
    text = b"\n".join(sorted(words))
    found: Set[bytes] = set()
    lowered = text.lower()
    for part in SUSPICIOUS:
        at = lowered.find(part)
        while at >= 0:
            start, end = lowered.rfind(b"\n", 0, at) + 1, lowered.find(b"\n", at)
            end = end if end >= 0 else len(text)
            found.add(text[start:end])
            at = lowered.find(part, end)
    return sorted(found)


def _in_pieces(text: bytes) -> bytes:
    """The block with ends of lines in its long lines too, at spaces where there are any."""
    block, at = bytearray(text), 0
    while at + LONG < len(block):
        end = block.find(b"\n", at, at + LONG)
        if end < 0:
            end = block.find(b" ", at + LONG // 2, at + LONG)
            end = end if end >= 0 else at + LONG - 1
            block[end] = 10
        at = end + 1
    return bytes(block)
