"""The chance that pure code is handed: `random.Random` is one."""

from __future__ import annotations

from typing import Protocol


class Generator(Protocol):
    """A seeded source of random numbers."""

    def random(self) -> float:
        """Uniform in [0, 1)."""

    def expovariate(self, lambd: float, /) -> float:
        """Exponential with mean 1 / `lambd`."""

    def gauss(self, mu: float, sigma: float, /) -> float:
        """Normal."""

    def gammavariate(self, alpha: float, beta: float, /) -> float:
        """Gamma with mean `alpha` x `beta`."""

    def lognormvariate(self, mu: float, sigma: float, /) -> float:
        """Log-normal."""

    def randrange(self, stop: int, /) -> int:
        """Uniform integer in [0, stop)."""
