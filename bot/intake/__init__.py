"""What clusters talk to: authenticated, idempotent, bounded; an answer of 202 means that it is on disk."""
