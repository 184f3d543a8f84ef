"""What a meter counts and records; objectives are in `test_slo`."""

from __future__ import annotations

import pytest

from paceline_engine.request import Tier
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.request_meter import Metering, RequestMeter, Stall
from paceline_engine.server.request_record import Identity, RequestRecord, tenant_digest
from paceline_engine.server.slo import SloBoard


class Bench:
    """Meters on a clock that is set by hand; what they record is kept."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.records: list[RequestRecord] = []
        self.metrics = RequestMetrics("m")
        self.metering = Metering(
            metrics=self.metrics,
            board=SloBoard("m"),
            clock=lambda: self.now_s,
            call_later=_no_timer,
            wall_clock=lambda: 1_000_000.0 + self.now_s,
            record=self.records.append,
        )

    def admit(self, prompt_tokens: int = 7, **more: object) -> RequestMeter:
        identity = Identity(request_id="r-1", tier=Tier.BATCH, tenant="acme", index=2)
        return self.metering.admit(self.now_s, prompt_tokens, identity, **more)  # type: ignore[arg-type]

    def emit(self, meter: RequestMeter, *gaps_s: float) -> None:
        for gap_s in gaps_s:
            self.now_s += gap_s
            meter.tokens(1)
            meter.emitted()

    def value(self, name: str, tier: str = "batch", **labels: str) -> float:
        wanted = {"model_name": "m", "tier": tier, **labels}
        return self.metrics.registry.get_sample_value(f"paceline_engine_{name}", wanted) or 0.0

    def total(self, name: str) -> float:
        found = self.metrics.registry.get_sample_value(
            f"paceline_engine_{name}", {"model_name": "m"}
        )
        return found or 0.0


def test_a_record_says_what_the_histograms_saw() -> None:
    bench = Bench()
    meter = bench.admit()
    meter.queued(0.2)
    meter.cached(4)
    bench.emit(meter, 0.5, 0.1, 0.3)
    bench.now_s += 0.05
    meter.complete("stop")
    (found,) = bench.records
    assert (found.request_id, found.index, found.tier) == ("r-1", 2, "batch")
    assert found.tenant == tenant_digest("acme") != ""
    assert found.outcome == "stop"
    assert found.received_at == pytest.approx(1_000_050.0)
    assert (found.prompt_tokens, found.cached_tokens, found.output_tokens) == (7, 4, 3)
    assert found.emissions == 3
    assert found.queue_s == bench.value("request_queue_seconds_sum") == 0.2
    assert found.ttft_s == pytest.approx(0.5)
    assert found.ttft_s == bench.value("time_to_first_token_seconds_sum")
    assert found.mean_itl_s == pytest.approx(0.2)
    assert bench.value("inter_token_latency_seconds_count") == 2
    assert bench.value("inter_token_latency_seconds_sum") == pytest.approx(0.4)
    assert found.e2e_s == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("emitted", "reason", "outcome"),
    [
        (0, "abort", "gone"),
        (2, "abort", "abort"),
        (0, "error", "error"),
        (2, "error", "error"),
        (0, "invalid", "invalid"),
        (2, "invalid", "invalid"),
    ],
)
def test_who_left_while_waiting_is_told_from_who_left_later(
    emitted: int, reason: str, outcome: str
) -> None:
    bench = Bench()
    meter = bench.admit()
    bench.emit(meter, *[0.1] * emitted)
    meter.abandon(reason)
    assert bench.value("requests_total", outcome=outcome) == 1
    (found,) = bench.records
    assert (found.outcome, found.emissions) == (outcome, emitted)
    assert (found.ttft_s is None) == (emitted == 0)


def test_time_in_which_the_client_does_not_read_is_none_of_the_engines() -> None:
    bench, stall = Bench(), Stall()
    meters = [bench.admit(stall=stall, shares_prompt=index > 0) for index in range(2)]
    for meter in meters:
        bench.emit(meter, 0.0)
    bench.now_s += 5.0
    stall.add(5.0)
    for meter in meters:
        bench.emit(meter, 0.1)
    assert bench.value("inter_token_latency_seconds_count") == 2
    assert bench.value("inter_token_latency_seconds_sum") == pytest.approx(0.1 + 0.2)


def test_choices_of_one_prompt_bring_its_tokens_once() -> None:
    bench = Bench()
    bench.metering.offer(Tier.BATCH, 7, choices=3)
    meters = [bench.admit(shares_prompt=index > 0) for index in range(3)]
    for meter in reversed(meters):
        bench.emit(meter, 0.1)
        meter.complete("length")
    assert bench.value("requests_received_total") == 3
    assert bench.value("prompt_tokens_received_total") == 7
    assert bench.value("request_prompt_tokens_count") == 1
    assert bench.total("prompt_tokens_total") == 7
    assert bench.value("time_to_first_token_seconds_count") == 3
    assert bench.total("generation_tokens_total") == 3


def test_offered_load_of_unknown_length_has_the_mean_so_far() -> None:
    bench = Bench()
    bench.metering.offer(Tier.INTERACTIVE, 10)
    bench.metering.offer(Tier.INTERACTIVE, 30)
    bench.metering.offer(Tier.BATCH, None, choices=2)
    assert bench.value("requests_received_total", "interactive") == 2
    assert bench.value("requests_received_total") == 2
    assert bench.value("prompt_tokens_received_total") == 20


def test_a_tier_that_is_not_known_yet_has_a_name_of_its_own() -> None:
    bench = Bench()
    bench.metering.redirect("draining", None)
    bench.metering.redirect("draining", Tier.BATCH)
    assert bench.value("rejected_total", "unread", reason="draining") == 1
    assert bench.value("rejected_total", "batch", reason="draining") == 1
    assert bench.value("requests_received_total", "batch") == 0


class _Nothing:
    def cancel(self) -> None: ...


def _no_timer(_delay: float, _callback: object) -> _Nothing:
    return _Nothing()
