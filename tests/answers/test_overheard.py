"""In an incident's thread people talk with each other: what they tell is no question to us."""

from __future__ import annotations

import pytest

from bot.answers.overheard import is_asked

TOLD = """
thanks; done; fixed; same here on my job, restarted it; looking into it; on it; ok restarting now; rank 3 again; drained
the node is drained; I drained the node; ok; will do; should be ok now; was my fault, sorry; has been restarted; my bad
ah, that disk again; show must go on; rebooting gn038; checkpoint restored; verified, works; rerunning with fewer workers
last time Bob fixed it
data is fine; network team informed; the ticket is INFRA-1234; läuft wieder; danke; bin dran; ist erledigt
"""
ASKED = """
why; why rank 3; last 3 lines of rank 12; root cause; what happened first; is it the node; r3 last words; node or network; can we restart
show the log of rank 3; proof; fix; timeline; who is on it; did you restart it?; fixed?; warum rank 3; xid 79; any checkpoint
was it the network; has this happened before; will it happen again; is gn038 broken; are the others ok
"""


def parted(texts: str) -> list[str]:
    return [text.strip() for line in texts.strip().splitlines() for text in line.split(";")]


@pytest.mark.parametrize("text", parted(TOLD))
def test_what_people_tell_each_other_is_left_alone(text: str) -> None:
    assert not is_asked(text)


@pytest.mark.parametrize("text", parted(ASKED))
def test_what_is_asked_is_heard(text: str) -> None:
    assert is_asked(text)
