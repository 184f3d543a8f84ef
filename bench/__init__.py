"""Side-by-side measurements: every number stands beside a peer's from the same run."""
