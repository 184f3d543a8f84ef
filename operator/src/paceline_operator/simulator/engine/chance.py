"""Times of single steps around their law."""

from __future__ import annotations

from math import exp, log, sqrt

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.step_noise import StepNoise


class Chance:
    """Draws how many times as long as the law says a step takes: log-normal, of mean 1.

    Args:
        noise: How far steps lie from the law.
        generator: Chance; without it steps take what the law says.

    Attributes:
        is_any: Whether steps differ at all.
    """

    def __init__(self, noise: StepNoise, generator: Generator | None) -> None:
        self.is_any = generator is not None and (noise.decode > 0.0 or noise.prefill > 0.0)
        self._decode_sd = sqrt(log(1.0 + noise.decode**2))
        self._prefill_sd = sqrt(log(1.0 + noise.prefill**2))
        self._generator = generator

    def factor(self, prefill_tokens: int) -> float:
        """Of the next step, which carries so many prompt tokens."""
        if self._generator is None or not self.is_any:
            return 1.0
        sd = self._prefill_sd if prefill_tokens else self._decode_sd
        return exp(sd * self._generator.gauss(0.0, 1.0) - sd * sd / 2.0)
