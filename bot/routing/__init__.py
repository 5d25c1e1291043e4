"""Which channels a failure is told in, and when."""
