"""From evidence that is due to a stored diagnosis and a queued message."""
