"""The WVA's frame: its own loop, then an HPA."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.conformance.policies.gauge_history import Peak
from bench.conformance.policies.site import ReplicaBounds
from bench.conformance.policies.wva_loop import WorkloadVariantAutoscaler
from bench.conformance.policies.wva_spare import SpareAnalyzer
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from tests.bench.conformance.policies.observed import fleet, pod

BOUNDS = ReplicaBounds(least=1, most=5)


@dataclass
class Fixed:
    """Wants what it is told to and notes when it is asked."""

    answer: int | None
    asked: list[tuple[int, int | None]] = field(default_factory=list)

    def wanted(
        self, fleet: FleetObservation, peaks: tuple[Peak, ...], target: int | None
    ) -> int | None:
        self.asked.append((len(peaks), target))
        return self.answer


def replicas(analyzer: Fixed, seconds: int) -> list[int | None]:
    """What is ordered at each scrape of two pods."""
    loop = WorkloadVariantAutoscaler(analyzer, BOUNDS)
    return [loop.decide(fleet(2), 5.0 * n).replicas for n in range(seconds // 5 + 1)]


def test_two_loops_in_series_are_slow() -> None:
    """The HPA's window of 120 s lets the first wish for more through after two minutes."""
    found = replicas(Fixed(4), 120)
    assert found == [None] * 24 + [4]


def test_it_analyses_every_minute_and_knows_its_last_target() -> None:
    analyzer = Fixed(9)
    replicas(analyzer, 120)
    assert analyzer.asked == [(2, None), (2, 5), (2, 5)]  # 5 is the maximum


def test_without_an_answer_nothing_is_ordered() -> None:
    assert set(replicas(Fixed(None), 300)) == {None}


def test_a_burst_within_the_minute_counts_at_its_peak() -> None:
    """7 waited at second 30; at second 60 none do, and still one more is wanted."""
    loop = WorkloadVariantAutoscaler(SpareAnalyzer(), BOUNDS)
    for n in range(60):
        queue = 7 if n == 6 else 2
        seen = fleet(tuple(pod(k, waiting=queue, kv_usage=0.5) for k in (1, 2)))
        orders = loop.decide(seen, 5.0 * n)
        if orders.replicas is not None:
            break
    # Analysed at 60 s with the peak; 120 s later the HPA has seen nothing lower.
    assert (orders.replicas, 5.0 * n) == (3, 165.0)
