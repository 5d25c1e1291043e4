"""What is told about an episode, where, and when."""
