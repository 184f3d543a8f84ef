"""Gather, decide, execute, write status: one tick of one object, and the queue of ticks."""
