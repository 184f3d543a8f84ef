"""Continuous batching as a pure function of queue, pool and limits. No clock, no torch."""
