"""How fast Firstfault is, as ratios and figures of one run: see `docs/performance.md`."""
