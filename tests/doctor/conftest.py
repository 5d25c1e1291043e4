"""A fake Slack for those who ask for one."""

from __future__ import annotations

from tests.slack.conftest import slack

__all__ = ["slack"]
