"""Errors a caller is expected to show to a person as one line."""

from __future__ import annotations


class UnreadableEvidence(Exception):  # noqa: N818 - named for what it tells
    """A path that does not exist, cannot be read, or holds nothing to diagnose; the message says which and why."""
