"""Pods, router, operator and what goes wrong, around the simulated engines."""
