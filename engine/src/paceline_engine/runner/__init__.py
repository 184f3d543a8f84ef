"""Runners execute a scheduling decision: `cpu`, later `cuda`, and `simulated`.

torch is imported inside the runners that compute, never here, so a simulated engine
does not load it.
"""
