"""One simulated engine: the real scheduling rule, with counts in place of tokens."""

from paceline_operator.simulator.engine.engine import Engine

__all__ = ["Engine"]
