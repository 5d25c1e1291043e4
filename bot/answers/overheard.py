"""Whether what somebody wrote in our thread, to nobody in particular, is a question to us. People also talk with each other."""

from __future__ import annotations

import re

_OPENS = re.compile(
    r"(?i)^\W*(?:what|whats|why|y|who|whos|whose|which|when|where|how|is|are|was|were|did|does|do|can|could|should|shall|may|will|would|has"
    r"|have|any|show|give|gimme|explain|tell|tail|list|help|warum|wieso|wer|wo|wann|wie|kann|koennen|können|ist|hat|zeig|gib|wtf|eta"
    r"|hilfe)\b"
)
_NAMES = re.compile(
    r"(?i)^\W*(?:logs?|timeline|restart|fix|verify|root|cause|proof|evidence|ranks?|r\d+|last|first|status)\b"
)
"""Openings that name what is wanted: "last 3 lines of rank 12"."""

_TELLS = re.compile(
    r"(?i)^\W*(?:has|have|hat|is|ist|are|was|were|should|will|would|may|can|could|show|do)\s+(?:be(?:en)?|do|my|ok|okay|fine|done|must|erledigt|gefixt)\b"
)
"""Openings of a question that go on as a statement: "has been restarted", "will do"."""

_DEEDS = (
    "restart reboot rerun re-run resubmit requeue drain undrain cordon fix solv resolv replac swap restor revert roll look check "
    "verif confirm inform notif call ping ask fil open reset clean free patch upgrad downgrad kill start work"
).split()
_SAYS = re.compile(
    r"(?i)(?<![\w-])(?:i|i'm|im|i'll|we|we're|he|she|they|my|our|ich|wir|mein|ok|okay|done|thanks|thx|danke|sorry|again|wieder"
    r"|will|should|must|been|is|are|ist|sind|was|fine|now|on it|dran|works?|läuft|laeuft|erledigt|took|gestartet"
    rf"|(?:{'|'.join(_DEEDS)})\w{{0,3}}(?:ed|ing|ied)|verified|resubmitted|rerunning)(?![\w-])"
)
_SHORT = 4  # words up to which what says nothing of itself may be a question: "r3 last words", "node or network"


def is_asked(text: str) -> bool:
    """Return whether a message looks like a question, and not like what people report to each other.

    >>> [is_asked(text) for text in ("node or network?", "root cause", "is it the node", "drained", "rank 3 again")]
    [True, True, True, False, False]
    """
    if "?" in text:
        return True
    if _OPENS.match(text):
        return not _TELLS.match(text)
    wanted = 0 < len(text.split()) <= _SHORT or _NAMES.match(text)
    return bool(wanted) and not _SAYS.search(text)
