"""The real fleet: a budget that breaks the ITL objective, then steps sized for it, live."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import yaml

from e2e.chat import port_forward, stream_chat
from e2e.demo import calibration, manifest, prompt
from e2e.demo.engines import StepCounts, read_steps
from e2e.demo.follow import follow
from e2e.demo.host import HostMeter
from e2e.demo.live import LiveTable
from e2e.demo.manifest import Manifest
from e2e.demo.observer import Observer
from e2e.demo.timeline import Decision, Sample
from e2e.job import LoadJob
from e2e.load.record import Record
from e2e.stand import Stand

READY_S = 180
WARM_S = 5.0
BEFORE_S = 75.0
MOVE_S = 35.0
AFTER_S = 75.0
SETTLE_S = 3.0
LOAD_S = WARM_S + BEFORE_S + MOVE_S + AFTER_S
QUESTION = "What does a cyclist do to hold a steady pace in a group?"
RATE_RPS = 0.85
"""Keeps two engines about half busy where the sample's targets were chosen."""
LOAD = (
    *("--plan", "steady", "--duration", f"{LOAD_S:g}"),
    *("--mix", "chat:0.25:24-64:40-60,long:0.75:400-600:6-10", "--seed", "11"),
    *("--max-requests", "600", "--json"),
)


class RealPartError(Exception):
    """The part did not come to its end; the text says why."""


class Stage(StrEnum):
    """What the load's time is used for."""

    WARM = "warming up"
    BEFORE = "before: only recommending"
    MOVING = "tuning switched on"
    AFTER = "after: objectives held live"
    REST = "load ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time that is judged, with the engine steps in it."""

    from_s: float
    to_s: float
    steps: StepCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RealPart:
    """What the real part showed.

    Attributes:
        switched_s: When tuning was switched on.
        moved_s: When the budget in force was seen to have changed, None if never.
        after: None where the load ended before the phase did.
        outside_cpu: Share of the machine used by others, the probe included; None on a
            cluster elsewhere.
        pods: Different engine pods seen; two unless one was replaced.
        scaled_by: What the sample's targets were multiplied by.
    """

    manifest: Manifest
    records: Sequence[Record]
    samples: Sequence[Sample]
    decisions: Sequence[Decision]
    switched_s: float
    moved_s: float | None
    before: Span
    after: Span | None
    outside_cpu: float | None
    pods: int
    scaled_by: float = 1.0


@dataclass(slots=True)
class Stages:
    """Acts at the right moments while the load runs."""

    stand: Stand
    service: str
    observer: Observer
    stage: Stage = Stage.WARM
    entered_s: float = field(default_factory=time.time)
    counts: StepCounts = field(default_factory=lambda: StepCounts(all_steps=0, decoding=0))
    before: Span | None = None
    after: Span | None = None
    switched_s: float = 0.0
    moved_s: float | None = None

    def __call__(self, _elapsed_s: float) -> str:
        now_s = time.time()
        age_s = now_s - self.entered_s
        match self.stage:
            case Stage.WARM if age_s >= WARM_S:
                self._enter(Stage.BEFORE)
            case Stage.BEFORE if age_s >= BEFORE_S:
                self.before = self._span()
                self._switch_on()
                self._enter(Stage.MOVING)
            case Stage.MOVING if self._has_settled(now_s):
                self._enter(Stage.AFTER)
            case Stage.AFTER if age_s >= AFTER_S:
                self.after = self._span()
                self._enter(Stage.REST)
        return self.stage.value

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self.counts = read_steps(self.stand.kubectl, self.service)
        self.entered_s = time.time()

    def _span(self) -> Span:
        steps = read_steps(self.stand.kubectl, self.service) - self.counts
        return Span(from_s=self.entered_s, to_s=time.time(), steps=steps)

    def _switch_on(self) -> None:
        prompt.patch(self.stand.kubectl, self.service, _tuning("Auto"))
        self.switched_s = time.time()

    def _has_settled(self, now_s: float) -> bool:
        """Whether the budget in force has changed since tuning was switched on."""
        if self.moved_s is None:
            past = [s.budget for s in self.observer.samples if s.at_s <= self.switched_s]
            if past and self.observer.last.budget not in (None, past[-1]):
                self.moved_s = now_s
        return self.moved_s is not None and now_s - self.moved_s >= SETTLE_S


def run(stand: Stand) -> RealPart:
    """Runs the part from `kubectl apply` to the fleet's scaling away."""
    sample = manifest.read("smollm2")
    _deploy(stand, sample)
    meter = HostMeter(stand.settings.programs)
    sample, scaled_by, rate_rps = _greet_and_calibrate(stand, sample)
    observer = Observer(stand.kubectl.kubeconfig, stand.namespace, sample.name, stand.context)
    try:
        part = _under_load(stand, sample, observer, meter, rate_rps)
    finally:
        observer.close()
    _scale_away(stand, sample)
    return replace(part, scaled_by=scaled_by)


def _deploy(stand: Stand, sample: Manifest) -> None:
    started = time.monotonic()
    prompt.apply_patched(stand.kubectl, sample, _tuning("Recommend"))
    stand.kubectl.wait("inferenceservice", sample.name, "--for=condition=Ready", timeout_s=READY_S)
    print(f"  Ready after {time.monotonic() - started:.0f} s")
    prompt.run(stand.kubectl, "get", prompt.KIND, sample.name)


def _greet_and_calibrate(stand: Stand, sample: Manifest) -> tuple[Manifest, float, float]:
    """The sample with its targets for this machine, what they were scaled by, and the load."""
    with port_forward(stand.kubectl, f"service/{sample.name}", 8000) as port:
        print(f"  Q: {QUESTION}\n  A: ", end="", flush=True)
        for piece in stream_chat(port, sample.model, QUESTION):
            print(piece.replace("\n", " "), end="", flush=True)
        print("\n", flush=True)
        probe = calibration.measure(port, sample.model)
    by = calibration.factor(probe)
    rate_rps = calibration.rate(RATE_RPS, calibration.load_factor(probe))
    targets = calibration.scaled(sample.targets_ms, by)
    shown = ", ".join(f"{name} {value} ms" for name, value in targets.items())
    print(
        f"  one prompt alone: first token {probe.first_ms:.0f} ms, then {probe.gap_ms:.0f} ms a "
        f"token; targets {'kept' if by == 1.0 else f'scaled by {by:.2f}'}: {shown}; "
        f"load {rate_rps:g} requests/s",
        flush=True,
    )
    if by != 1.0:
        _patch_targets(stand, sample, targets)
    return replace(sample, targets_ms=targets), by, rate_rps


def _patch_targets(stand: Stand, sample: Manifest, targets: Mapping[str, int]) -> None:
    slos = yaml.safe_load(sample.path.read_text())["spec"]["slos"]
    changed = [{**slo, "targetMs": targets[slo["name"]]} for slo in slos]
    prompt.patch(stand.kubectl, sample.name, {"spec": {"slos": changed}})


def _tuning(mode: str) -> dict[str, Any]:
    return {"spec": {"tuning": {"mode": mode}}}


def _under_load(
    stand: Stand, sample: Manifest, observer: Observer, meter: HostMeter, rate_rps: float
) -> RealPart:
    url = f"http://{sample.name}.{stand.namespace}:8000"
    args = ("--url", url, "--model", sample.model, "--rate", f"{rate_rps:g}", *LOAD)
    job = LoadJob(stand.kubectl, stand.host, "demo-load-real", args, deadline_s=420)
    stages = Stages(stand, sample.name, observer)
    title = "Real engines, SmolLM2-135M: short chats and long prompts"
    table = LiveTable(title, observer, sample.ttft_target_ms, sample.itl_target_ms)
    try:
        job.start()
        job.wait_running()
        stages.entered_s = time.time()
        log = follow(job, table, stages)
    finally:
        job.delete()
    observer.check()
    if stages.before is None:
        raise RealPartError("the load ended before the first phase did")
    return RealPart(
        manifest=sample,
        records=log.records,
        samples=tuple(observer.samples),
        decisions=observer.decisions,
        switched_s=stages.switched_s,
        before=stages.before,
        after=stages.after,
        moved_s=stages.moved_s,
        outside_cpu=meter.outside() if stand.settings.provider == "built" else None,
        pods=len(observer.pods),
    )


def _scale_away(stand: Stand, sample: Manifest) -> None:
    print(flush=True)
    prompt.run(stand.kubectl, "paceline", "explain", sample.name)
    print(flush=True)
    prompt.run(stand.kubectl, "scale", prompt.KIND, sample.name, "--replicas=0")
    selector = stand.kubectl.json("get", prompt.KIND, sample.name)["status"]["selector"]
    stand.kubectl.run(
        "wait", "pods", "-l", selector, "--for=delete", "--timeout=120s", timeout_s=140
    )
