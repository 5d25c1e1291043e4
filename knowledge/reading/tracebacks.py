"""Python tracebacks, one line at a time, also where the lines of many ranks interleave."""

from __future__ import annotations

import re

from knowledge.reading.evidence import Frame, Place, Traceback
from knowledge.reading.marks import TRACEBACK
from knowledge.reading.progress import is_training

_FRAME = re.compile(r'^>?\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt)(?::|$)")
"""An exception by its name, where nothing else tells that one must follow."""
_BARE = re.compile(r"^(?P<type>(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): ?(?P<message>\S.{2,})$")
"""The end of a traceback of which nothing else was kept."""
_BOX = "│╭╰┃❱"  # what rich draws round a traceback
_BOXED = re.compile(r"^│ (?P<path>/[^\s:]+|\.{0,2}[\w./-]+\.py):(?P<line>\d+) in (?P<function>\S+)")
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)*)(?:: ?(?P<message>.*))?$")
_MESSAGE_LINES = 8
"""Lines after the exception's first that are still taken for its message."""
_NEW_RECORD = re.compile(r"^\[?[IWEF]\d{3,4} |^\d{4}-\d\d-\d\d|^\[\d{4}-|^srun: |^slurmstepd|^-{20,}|^={20,}|^\s*$")
_LAUNCHER = re.compile(r"^(?:srun|slurmstepd(?:-\S+)?|mpirun|mpiexec|prterun|torchrun): ")
"""Words of a launcher on a rank's end, which may come before the rank's own last line."""
_CAUSED = re.compile(r"^(?:The above exception was the direct cause|During handling of the above exception)")
_OF_AN_ERROR = re.compile(r"(?i)\b(?:error|critical|fatal|exception|failed|crashed)\b")
"""What a record says below which its traceback may follow."""
_OF_WORKER = "Original Traceback"
"""How PyTorch calls the traceback of a worker process under the one of the rank that raised it again."""
_OF_GROUP = "Exception Group Traceback"
_MARGIN = re.compile(r"^ *[|+](?: |(?=-)|$)")
"""What Python draws in front of the lines of an exception group."""
_MAX_LINES = 400
_MAX_BEHEADED = 60
"""Lines in which a traceback whose beginning was cut off must come to its exception."""
_END_OF_STRING = re.compile(r'(?<!\\)"')


class TracebackReader:
    """Assembles tracebacks of one stream (one rank of one source). Feed it every line; it returns finished ones."""

    def __init__(self) -> None:
        self._start: Place | None = None
        self._frames: list[Frame] = []
        self._tagged = False
        self._beheaded = False  # its first line was cut off
        self._lines = 0
        self._previous: Traceback | None = None  # finished, may turn out to be chained to the next
        self._chaining = False
        self._since = 0
        self._inner = (
            False  # what is being read was raised in a worker process, and carried over to the exception before
        )
        self._group = False  # it is drawn as a group's, with a margin
        self._within = False  # the last line was one of a traceback before its exception
        self.warned = False  # the program said beforehand that it got over it
        self.ignored = False  # Python said beforehand that this exception is ignored

    @property
    def idle(self) -> bool:
        """Whether nothing is being read, and nothing that was read can still go on."""
        return self._start is None and self._previous is None

    @property
    def unfinished(self) -> Place | None:
        """Where a traceback begins that, if nothing follows, ends before its exception; None where there is none."""
        if not (self._within or self._chaining):
            return None
        return self._start or (self._previous.start if self._previous else None)

    def feed(self, text: str, place: Place, tagged: bool) -> Traceback | None:
        """Take one line (`text` without launcher prefixes); return the traceback that it ends, if any."""
        self._group = (self._group and _MARGIN.match(text) is not None) or _OF_GROUP in text
        if self._group:
            text = _MARGIN.sub("", text)
        if TRACEBACK in text:
            self._start, self._frames, self._tagged, self._lines, self._beheaded = place, [], tagged, 0, False
            carried = text.startswith(_OF_WORKER) or (self._group and not self._chaining)
            self._inner = self._previous is not None and carried
            self._within = True
            return None
        self._within = False
        if self._start is None and self._previous is None and (frame := _FRAME.match(text)) and frame["function"]:
            self._start, self._frames, self._tagged, self._lines, self._beheaded = place, [], tagged, 0, True
        if self._start is None:
            if self._previous is not None:
                self._since += 1
                if (
                    self._since == 1 + self._previous.last_order - self._previous.end.order
                    and self._since <= _MESSAGE_LINES
                ) and not (_NEW_RECORD.match(text) or is_training(text)):
                    self._previous.last_order += 1
                if _CAUSED.match(text):
                    self._chaining = True
                elif self._since > 2 * _MESSAGE_LINES and not self._chaining:
                    self._previous = None
            return None
        self._lines += 1
        self._tagged = self._tagged or tagged
        if not text.strip() or text[0] in " \t|+>" or text[0] in _BOX:
            found = _FRAME.match(text) or _BOXED.match(text)
            if found:
                self._frames.append(Frame(found["path"], int(found["line"]), found["function"] or ""))
            self._within = bool(text.strip())
            if self._lines > (_MAX_BEHEADED if self._beheaded else _MAX_LINES):
                self._start = None
            return None
        if _LAUNCHER.match(text):
            return None
        ending = _EXCEPTION.match(text)
        if not ending or (self._beheaded and not _ERROR.match(text)) or (not self._frames and self._lines > 2):
            if self._lines > (_MAX_BEHEADED if self._beheaded else _MAX_LINES):
                self._start = None
            return None
        finished = Traceback(
            start=self._start,
            end=place,
            exception=ending["type"],
            message=(ending["message"] or "").strip(),
            frames=self._frames,
            tagged=self._tagged,
            chained_to=self._previous if self._chaining else None,
            last_order=place.order,
            warned=self.warned,
        )
        self._start = None
        if self.ignored:
            self.ignored = False
            return None
        if self._inner and self._previous is not None:
            self._inner, self._since = False, 0
            if self._group and self._previous.chained_to is not None:
                return None  # of a group the first one speaks
            self._previous.chained_to = finished
            return finished
        self._previous, self._chaining, self._since = finished, False, 0
        return finished


class Recorded:
    """Whose a traceback is that a logger wrote below a record: only the record tells its rank."""

    def __init__(self) -> None:
        self._record: tuple[int | None, str] = (None, "")  # the last line
        self._rank: int | None = None
        self._chained = False

    def rank_of(self, rank: int | None, text: str) -> int | None:
        """Take one line of which `rank` is all that it tells itself; return the rank that wrote it, if known."""
        if rank is not None:
            self._rank = None
        elif TRACEBACK in text:
            teller, record = self._record
            if teller is not None and _OF_AN_ERROR.search(record):
                self._rank = teller
            elif not self._chained:
                self._rank = None
            self._chained = False
        elif self._rank is not None and text.strip():
            self._chained = self._chained or _CAUSED.match(text) is not None
            if _NEW_RECORD.match(text):
                self._rank = None
        self._record = rank, text
        return rank if rank is not None else self._rank


def folded(text: str, place: Place, tagged: bool) -> Traceback | None:
    """The traceback that a logger wrote into one line, as a string of a JSON record; None where there is none, or a part."""
    begun = text.find(TRACEBACK)
    if text[begun + len(TRACEBACK) :][:3] != ":\\n":
        return None
    whole = _END_OF_STRING.split(text[begun:], maxsplit=1)[0]
    reader, last = TracebackReader(), None
    for line in whole.split("\\n"):
        last = reader.feed(line.replace('\\"', '"'), place, tagged) or last
    if last is not None:
        last.last_order = place.order
    return last


def bare(text: str, place: Place, tagged: bool) -> Traceback | None:
    """The traceback of which a line is the end, where all before it was left out; None where it is no such line."""
    found = _BARE.match(text)
    if found is None:
        return None
    return Traceback(
        start=place,
        end=place,
        exception=found["type"],
        message=found["message"].strip(),
        frames=[],
        tagged=tagged,
        last_order=place.order,
    )
