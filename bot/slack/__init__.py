"""Slack: one place renders, one place escapes, one place posts."""
