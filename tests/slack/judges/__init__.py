"""Judges of what is sent to Slack: two libraries, Slack's own types, and what all of these miss."""
