"""Every baseline by its name, with its default and the settings to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.conformance.policies import keda, kpa
from bench.conformance.policies.aimd import Aimd, AimdSettings
from bench.conformance.policies.combined import Combined
from bench.conformance.policies.dynamo_engine import Latencies
from bench.conformance.policies.dynamo_load import DynamoLoad, LoadSettings
from bench.conformance.policies.dynamo_throughput import DynamoThroughput
from bench.conformance.policies.gauge import Gauge
from bench.conformance.policies.hpa import CpuMetric, HorizontalPodAutoscaler
from bench.conformance.policies.latency_saturation import LatencySaturation, SaturationSettings
from bench.conformance.policies.ppas import Ppas
from bench.conformance.policies.site import Site
from bench.conformance.policies.static import VLLM_BUDGET, VLLM_BUDGET_H100, Static
from bench.conformance.policies.wva_loop import WorkloadVariantAutoscaler
from bench.conformance.policies.wva_spare import SpareAnalyzer, SpareThresholds
from bench.conformance.policies.wva_tokens import TokenAnalyzer, TokenThresholds
from paceline_operator.simulator.controller import Controller
from paceline_operator.simulator.step_budget import StepBudget

Build = Callable[[Site, float], Controller]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One contestant.

    Attributes:
        name: In results.
        setting: What its main setting is, with the unit.
        default: As documented.
        sweep: Five values of it, from dear to cheap.
        build: A new controller of the replicas, since each remembers.
        step_budget: Rule inside the engines, which then start with all of their budget.
    """

    name: str
    setting: str
    default: float
    sweep: tuple[float, float, float, float, float]
    build: Build
    step_budget: StepBudget | None = None

    def controller(
        self, site: Site, value: float | None = None, budget: int | None = None
    ) -> Controller:
        """With a static budget beside it, as people run it.

        Args:
            site: The fleet.
            value: Of the main setting, None for the default.
            budget: Of every engine, None for what it was started with.
        """
        made = self.build(site, self.default if value is None else value)
        if budget is None:
            return made
        return Combined((Static(tunables=site.tunables(budget)), made))


def _cpu(site: Site, target: float) -> Controller:
    return HorizontalPodAutoscaler((CpuMetric(target=target),), site.bounds)


def _keda(gauge: Gauge) -> Build:
    def build(site: Site, threshold: float) -> Controller:
        trigger = keda.Trigger(gauge=gauge, threshold=threshold)
        return keda.keda(keda.ScaledObject(triggers=(trigger,)), site.bounds)

    return build


def _kpa(settings: kpa.KpaSettings) -> Build:
    return lambda site, target: kpa.PodAutoscaler(replace(settings, target=target), site.bounds)


def _wva_spare(site: Site, kv_usage: float) -> Controller:
    analyzer = SpareAnalyzer(SpareThresholds(kv_usage=kv_usage))
    return WorkloadVariantAutoscaler(analyzer, site.bounds)


def _wva_tokens(site: Site, up: float) -> Controller:
    down = up * TokenThresholds().down / TokenThresholds().up
    return WorkloadVariantAutoscaler(TokenAnalyzer(TokenThresholds(up=up, down=down)), site.bounds)


def _targets(site: Site) -> Latencies:
    return Latencies(ttft_ms=site.ttft_ms, itl_ms=site.itl_ms)


def _dynamo_load(site: Site, sensitivity: float) -> Controller:
    return DynamoLoad(_targets(site), site.bounds, LoadSettings(sensitivity=sensitivity))


def _dynamo_throughput(site: Site, share: float) -> Controller:
    return DynamoThroughput(_targets(site), site.bounds, counted_on=share)


def _dynamo(site: Site, share: float) -> Controller:
    load = DynamoLoad(_targets(site), site.bounds)
    return DynamoThroughput(_targets(site), site.bounds, load, counted_on=share)


def _saturation(site: Site, up: float) -> Controller:
    usual = SaturationSettings()
    settings = replace(usual, up=up, down=up * usual.down / usual.up)
    return LatencySaturation(site.ttft_ms, site.itl_ms, site.bounds, settings)


def _aimd(site: Site, threshold: float) -> Controller:
    return Combined((Aimd(site.itl_ms, AimdSettings()), _keda(Gauge.IN_FLIGHT)(site, threshold)))


_WAITING, _KV, _RUNNING = (each.triggers[0] for each in (keda.WAITING, keda.KV_USAGE, keda.RUNNING))
_SHARES = (0.3, 0.36, 0.45, 0.6, 1.0)

BASELINES: tuple[Baseline, ...] = (
    Baseline(
        name="hpa-cpu",
        setting="busy share of an engine",
        default=CpuMetric().target,
        sweep=(0.5, 0.65, 0.8, 0.85, 0.9),
        build=_cpu,
    ),
    Baseline(
        name="keda-waiting",
        setting="waiting requests per replica",
        default=_WAITING.threshold,
        sweep=(0.25, 0.5, 1.0, 2.0, 5.0),
        build=_keda(Gauge.WAITING),
    ),
    Baseline(
        name="keda-kv",
        setting="share of the KV cache in use",
        default=_KV.threshold,
        sweep=(0.03, 0.06, 0.15, 0.4, 0.8),
        build=_keda(Gauge.KV_USAGE),
    ),
    Baseline(
        name="keda-running",
        setting="requests in flight per replica",
        default=_RUNNING.threshold,
        sweep=(8.0, 12.0, 16.0, 24.0, 32.0),
        build=_keda(Gauge.IN_FLIGHT),
    ),
    Baseline(
        name="kpa-knative",
        setting="requests in flight per replica",
        default=kpa.KNATIVE.target,
        sweep=(6.0, 10.0, 16.0, 30.0, 70.0),
        build=_kpa(kpa.KNATIVE),
    ),
    Baseline(
        name="kpa-aibrix",
        setting="share of the KV cache in use",
        default=kpa.AIBRIX.target,
        sweep=(0.03, 0.06, 0.12, 0.25, 0.5),
        build=_kpa(kpa.AIBRIX),
    ),
    Baseline(
        name="wva-v1",
        setting="share of the KV cache at which a replica is saturated",
        default=SpareThresholds().kv_usage,
        sweep=(0.11, 0.13, 0.16, 0.3, 0.8),
        build=_wva_spare,
    ),
    Baseline(
        name="wva-v2",
        setting="use of the token capacity above which replicas are added",
        default=TokenThresholds().up,
        sweep=(0.1, 0.2, 0.4, 0.6, 0.85),
        build=_wva_tokens,
    ),
    Baseline(
        name="dynamo-throughput",
        setting="share of an engine's rate at the targets that is counted on",
        default=1.0,
        sweep=_SHARES,
        build=_dynamo_throughput,
    ),
    Baseline(
        name="dynamo-load",
        setting="share of the targets that must hold with one replica less",
        default=LoadSettings().sensitivity,
        sweep=(0.2, 0.35, 0.5, 0.65, 0.8),
        build=_dynamo_load,
    ),
    Baseline(
        name="dynamo-both",
        setting="share of an engine's rate at the targets that is counted on",
        default=1.0,
        sweep=_SHARES,
        build=_dynamo,
    ),
    Baseline(
        name="latency-saturation",
        setting="saturation above which replicas are added",
        default=SaturationSettings().up,
        sweep=(0.4, 0.55, 0.75, 1.0, 1.4),
        build=_saturation,
    ),
    Baseline(
        name="aimd-keda-running",
        setting="requests in flight per replica",
        default=_RUNNING.threshold,
        sweep=(8.0, 12.0, 16.0, 24.0, 32.0),
        build=_aimd,
    ),
    Baseline(
        name="ppas-keda-running",
        setting="requests in flight per replica",
        default=_RUNNING.threshold,
        sweep=(8.0, 12.0, 16.0, 24.0, 32.0),
        build=_keda(Gauge.IN_FLIGHT),
        step_budget=Ppas(),
    ),
)


def default_budget(profile: str) -> int:
    """What vLLM starts a server with on this accelerator."""
    return VLLM_BUDGET_H100 if "h100" in profile else VLLM_BUDGET


def find_baseline(name: str) -> Baseline:
    """By its name.

    Raises:
        KeyError: There is none of that name.
    """
    return {baseline.name: baseline for baseline in BASELINES}[name]
