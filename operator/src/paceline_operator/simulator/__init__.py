"""Pure. A discrete-event fleet of engines: for tests, `what-if` and benchmarks."""
