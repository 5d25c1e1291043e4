"""A real failed job, recorded: what `firstfault demo` replays."""
