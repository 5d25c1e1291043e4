"""The command as a person runs it."""

from __future__ import annotations

from tests.cli.conftest import firstfault, recording

__all__ = ["firstfault", "recording"]
