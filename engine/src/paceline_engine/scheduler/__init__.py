"""Continuous batching: which tokens of which request run in the next step. Pure."""
