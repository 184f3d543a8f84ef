"""What Dynamo's planner believes of one engine: its latencies now, and its rate at the targets.

Rule: TTFT of a newcomer = the steps that the queue and the newcomer's own prompt take at the
present KV load, prefix hits taken off the tokens; ITL of a newcomer = a step with the mean
prompt tokens of a step and the KV load of one sequence more. Rate at the targets: the largest
batch x, up to what KV cache and `max_num_seqs` hold and to the balance of prompts and answers,
x <= O B / (I + O), with both latencies within target; requests per second = x / (O x step time).
Source: NVIDIA Dynamo, `planner/core/perf_model/agg.py`, whose text gives that balance and whose
code the looser I / (B - x) <= O. Per-step telemetry is replaced by the
mean step of each class in each scrape; the mean prompt is that of arriving requests, where
Dynamo takes the chunk a request has in a step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil

from bench.conformance.policies.step_regression import (
    MOST_SAMPLES,
    StepLine,
    StepRegression,
    StepSample,
)
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import Counter, StepClass, Window

SHAPE_WINDOW_S = 60.0
MOST_UNKNOWN_BATCH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Targets or predictions, milliseconds."""

    ttft_ms: float
    itl_ms: float

    def within(self, targets: Latencies) -> bool:
        """Whether both hold."""
        return self.ttft_ms <= targets.ttft_ms and self.itl_ms <= targets.itl_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Mean request.

    Attributes:
        prompt: Tokens of the prompt.
        answer: Tokens of the answer.
        hit_rate: Share of prompt tokens found in the prefix cache.
    """

    prompt: float
    answer: float = 0.0
    hit_rate: float = 0.0

    @property
    def resident(self) -> float:
        """KV tokens of one sequence, on average over its answer."""
        return self.prompt + self.answer / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine was started with.

    Attributes:
        budget: `max_num_batched_tokens`.
        running_seqs: `max_num_seqs`.
        kv_tokens: KV tokens it holds, None where unknown.
    """

    budget: int
    running_seqs: int
    kv_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModel:
    """The fitted step time and the means beside it.

    Attributes:
        line: Step time.
        prefill_mean: Prompt tokens of a step.
        row_kv_mean: KV tokens of a decoding sequence.
    """

    line: StepLine
    prefill_mean: float = 0.0
    row_kv_mean: float = 0.0

    def ttft_ms(self, queued_tokens: float, kv_tokens: float, budget: int, shape: Shape) -> float:
        """Of a request that comes now."""
        left = (queued_tokens + shape.prompt) * (1.0 - shape.hit_rate)
        full = max(0, ceil(left / budget) - 1)
        last_s = self.line.seconds(left - full * budget, kv_tokens) if left > 0 else 0.0
        return 1e3 * (full * self.line.seconds(budget, kv_tokens) + last_s)

    def itl_ms(self, kv_tokens: float) -> float:
        """Of a sequence that decodes beside the present ones."""
        return 1e3 * self.line.seconds(self.prefill_mean, kv_tokens + self.row_kv_mean)

    def best_rps(self, shape: Shape, engine: Capabilities, targets: Latencies) -> float:
        """Requests per second at the targets; those of one sequence where none meets them.

        0 without a request to reckon with.
        """
        if shape.prompt <= 0 or shape.answer <= 0:
            return 0.0
        best = self._rps(1, shape, engine)
        for batch in range(2, _largest_batch(shape, engine) + 1):
            if not self._at_batch(batch, shape, engine).within(targets):
                break
            best = self._rps(batch, shape, engine)
        return best

    def _rps(self, batch: int, shape: Shape, engine: Capabilities) -> float:
        return batch / (shape.answer * self._step_s(batch, shape, engine))

    def _step_s(self, batch: int, shape: Shape, engine: Capabilities) -> float:
        """A step in which `batch` sequences decode and as many prompts enter as leave."""
        prefill = _prefill_per_step(batch, shape, engine)
        return self.line.seconds(prefill, batch * shape.resident)

    def _at_batch(self, batch: int, shape: Shape, engine: Capabilities) -> Latencies:
        undiscounted = Shape(prompt=shape.prompt, answer=shape.answer)
        queued, kv_tokens = _prefill_per_step(batch, shape, engine), batch * shape.resident
        return Latencies(
            ttft_ms=self.ttft_ms(queued, kv_tokens, engine.budget, undiscounted),
            itl_ms=1e3 * self._step_s(batch, shape, engine),
        )


class DynamoEngine:
    """Learns the model from scrapes."""

    def __init__(self) -> None:
        self._regression = StepRegression()
        self._prefill_means: deque[float] = deque(maxlen=MOST_SAMPLES)
        self._row_kv_means: deque[float] = deque(maxlen=MOST_SAMPLES)
        self._seen_until_s = float("-inf")

    def observe(self, fleet: FleetObservation) -> None:
        """Learns from slices not seen before."""
        for window in fleet.slices:
            if window.end_s > self._seen_until_s:
                self._learn(window)
                self._seen_until_s = window.end_s

    @property
    def model(self) -> EngineModel | None:
        """The model; None while the regression says nothing."""
        line = self._regression.line
        if line is None:
            return None
        return EngineModel(
            line=line,
            prefill_mean=_mean(self._prefill_means),
            row_kv_mean=_mean(self._row_kv_means),
        )

    def _learn(self, window: Window) -> None:
        for kind in StepClass:
            steps = window.moments(kind)
            if steps.count:
                sample = StepSample(steps.mean("p"), steps.mean("k"), steps.mean("t"))
                self._regression.add(sample)
        together = window.moments()
        if together.mean("p") or self._prefill_means:
            self._prefill_means.append(together.mean("p"))
        if together.of("d"):
            self._row_kv_means.append(together.of("k") / together.of("d"))


def _mean(values: deque[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _prefill_per_step(batch: int, shape: Shape, engine: Capabilities) -> float:
    entering = batch * shape.prompt * (1.0 - shape.hit_rate) / max(1.0, shape.answer)
    return min(entering, float(engine.budget))


def _largest_batch(shape: Shape, engine: Capabilities) -> int:
    """What cache, sequences and the balance of prompts and answers allow; 1 at least."""
    in_cache = MOST_UNKNOWN_BATCH
    if engine.kv_tokens:
        in_cache = int(engine.kv_tokens / max(1.0, shape.resident))
    balanced = int(engine.budget * shape.answer / (shape.prompt + shape.answer))
    return max(1, min(in_cache, engine.running_seqs, balanced))


def capabilities(fleet: FleetObservation) -> Capabilities | None:
    """Of the serving pods, the weakest; None before any engine has said."""
    knobs = [pod.tunables for pod in fleet.serving if pod.tunables is not None]
    if not knobs:
        return None
    pools = [pod.kv_capacity_tokens for pod in fleet.serving if pod.kv_capacity_tokens]
    return Capabilities(
        budget=min(each.effective for each in knobs),
        running_seqs=min(each.running_seqs for each in knobs),
        kv_tokens=min(pools, default=None),
    )


def shape_of(window: Window, answer: float = 0.0) -> Shape:
    """Mean prompt and hit rate of a window; no request means a prompt of 0."""
    requests = window.count(Counter.REQUESTS_RECEIVED)
    queried = window.count(Counter.PREFIX_QUERIES_TOKENS)
    return Shape(
        prompt=window.count(Counter.PROMPT_TOKENS_RECEIVED) / requests if requests else 0.0,
        answer=answer,
        hit_rate=window.count(Counter.PREFIX_HITS_TOKENS) / queried if queried else 0.0,
    )
