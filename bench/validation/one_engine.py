"""One simulated engine under an open load, with every latency kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from paceline_operator.simulator.engine import Engine
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served


@dataclass(slots=True)
class Latencies:
    """A sink that keeps them; milliseconds."""

    ttft_ms: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)

    def admitted(self, served: Served) -> None:
        """See `Sink`."""

    def step(self, *, seconds: float, interactive_rows: int, batch_rows: int, **_: object) -> None:
        """See `Sink`."""
        self.gaps_ms += [1e3 * seconds] * (interactive_rows + batch_rows)

    def stretch(
        self,
        *,
        steps: int,
        interactive_rows: int,
        batch_rows: int,
        first_s: float,
        growth_s: float,
        **_: object,
    ) -> None:
        """See `Sink`."""
        for number in range(steps):
            seconds = first_s + number * growth_s
            self.gaps_ms += [1e3 * seconds] * (interactive_rows + batch_rows)

    def accepted(self, *, tokens: int, interactive_rows: int, batch_rows: int) -> None:
        """See `Sink`."""
        self.gaps_ms += [0.0] * tokens * (interactive_rows + batch_rows)

    def first_token(self, served: Served) -> None:
        """See `Sink`."""
        if served.first_s is not None:
            self.ttft_ms.append(1e3 * (served.first_s - served.received_s))

    def gap(self, served: Served, gap_s: float) -> None:
        """See `Sink`."""
        self.gaps_ms.append(1e3 * gap_s)

    def ended(self, served: Served, outcome: str) -> None:
        """See `Sink`."""


def simulate(requests: Iterable[Request], config: EngineConfig) -> Latencies:
    """Serves a load to its end.

    Args:
        requests: In the order of their arrival.
        config: The engine's make.

    Raises:
        ValueError: A request was turned away, so that figures are not of the same load.
    """
    kept = Latencies()
    engine = Engine(config, kept, 0.0)
    for number, request in enumerate(requests):
        reason = engine.submit(request, number, request.arrival_s)
        if reason is not None:
            raise ValueError(f"the simulated engine turned request {number} away: {reason}")
    while not engine.is_empty:
        engine.advance(engine.next_event_s)
    return kept
