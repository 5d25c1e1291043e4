"""The weekly digest: what failed, what it cost, and what to do first, for a reader who has two minutes."""
