"""Damaged, absurd and hostile input: nothing crashes, nothing is slow, nothing secret comes out.

`make fuzz` searches for FUZZ_SECONDS; what it finds is kept in `found/`, and is tested from then on.
"""
