"""Where to end a literal, so that the search for many at once is fast.

A search for many literals looks at the last characters of each: one that ends as healthy lines often do (`…tion`, `… loss`)
stops the search at every such place, for nothing. It is enough to look for the beginning of a literal, up to a place
where the text is rare; whoever finds that has to compare the line with the whole literal anyway.
"""

from __future__ import annotations

_PAIRS = (
    ":   raer 0te, -0 | 1lo l| ti0  s] ssosep t0.onat1.s:st.06-2 itedr s annsd me iiope [ 3:2in 5le3  9.1INNFFO"
    ":1==or 2el In O 2:to 4.41:um4  g-1im -3-p 1-oknk n6 lrnoad1 grrmoc/spses0:ch[2ne3. 7_n p:4d_m mp eenaiplam"
    " mnu3,tr o:0kee be (- off ):mbpul po 8kims.2seroip_spp:39. csk8 .3.95 co C4:]:[rlasae-8.nn0,7 P/ap N+0alsu"
    ":55:(ms)lmE+/ 2.9 0e.6e:gp-n0]u-NCCCCLn03:L 7,r_ 65,/1s/t ba r3]->ngs_ :ha.8_pChem vev.7vi5.ve Pk/fu2}iamf"
    "> y:a [0P2ME2PEMCUUM/C.5nffocar:h 1]9, {m:p=8:d=ecPUGP1,0/7:2]6:moni4.op7]6]5]4][t2,n:ou8,rS6,utob4,ta"
)
"""Pairs of characters in healthy logs, the most frequent first."""

_FREQUENCY = {_PAIRS[start : start + 2]: len(_PAIRS) - start for start in range(0, len(_PAIRS), 2)}
_COMMON = len(_PAIRS) + 1  # more than any frequency
_ENOUGH = 10  # characters that are kept at least


def rare_beginning(literal: str) -> str:
    """The beginning of a literal, at least 10 characters of it, that ends most unlike healthy text; the longest of equals."""
    best, least = literal, _COMMON
    for end in range(len(literal), _ENOUGH - 1, -1):
        frequency = _FREQUENCY.get(literal[end - 2 : end], 0)
        if frequency < least:
            best, least = literal[:end], frequency
        if not least:
            break
    return best
