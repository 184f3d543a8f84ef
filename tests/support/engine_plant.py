"""One engine as a discrete plant: budgeted steps, a step-time law, exact counts. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

from paceline_operator.autopilot.vocabulary.window import (
    TERMS,
    Counter,
    Histogram,
    Latency,
    Moments,
    SloCounts,
    StepClass,
    Window,
    slo_key,
)

EDGES = (
    0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5,
    0.75, 1.0, 1.5, 2.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, float("inf"),
)  # fmt: skip
TOKEN_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, float("inf"))

StepTime = Callable[[float, float, float, float], float]
"""Seconds from prefill tokens, decode rows, resident KV tokens, chunk x context."""


@dataclass(slots=True, eq=False)
class Request:
    """One request on its way through an engine."""

    arrived_s: float
    prompt: int
    output: int
    prefilled: int = 0
    made: int = 0
    last_s: float = 0.0
    late: bool = False


@dataclass(frozen=True, slots=True)
class Targets:
    """Objectives engines count against, by name."""

    ttft: tuple[str, int]
    itl: tuple[str, int]


@dataclass(slots=True)
class Tally:
    """What happened since the last cut."""

    counters: dict[Counter, float] = field(default_factory=dict)
    sums: dict[StepClass, list[float]] = field(default_factory=dict)
    samples: dict[Latency, list[float]] = field(default_factory=dict)
    slo: dict[str, list[float]] = field(default_factory=dict)

    def count(self, counter: Counter, value: float = 1.0) -> None:
        self.counters[counter] = self.counters.get(counter, 0.0) + value

    def judge(self, metric: str, objective: tuple[str, int], *, good: bool) -> None:
        name, target_ms = objective
        key = slo_key(name, metric, target_ms)
        self.slo.setdefault(key, [0.0, 0.0])[0 if good else 1] += 1

    def step(self, kind: StepClass, values: tuple[float, float, float, float, float]) -> None:
        sums = self.sums.setdefault(kind, [0.0] * len(TERMS))
        for place, (a, b) in enumerate(combinations_with_replacement((1.0, *values), 2)):
            sums[place] += a * b

    def window(self, start_s: float, end_s: float) -> Window:
        return Window(
            start_s=start_s,
            end_s=end_s,
            pod_seconds=end_s - start_s,
            steps={kind: Moments(tuple(sums)) for kind, sums in self.sums.items()},
            counters=dict(self.counters),
            histograms={kind: _histogram(kind, values) for kind, values in self.samples.items()},
            slo={name: SloCounts(good, bad) for name, (good, bad) in self.slo.items()},
        )


class EnginePlant:
    """An engine that runs steps back to back while it has work."""

    def __init__(self, step_time: StepTime, targets: Targets, budget: int, seqs: int) -> None:
        self.budget = budget
        self.seqs = seqs
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.finished: list[Request] = []
        self.tally = Tally()
        self.step_time = step_time
        self._targets = targets
        self._clock_s = 0.0

    @property
    def load(self) -> int:
        return len(self.waiting) + len(self.running)

    def submit(self, request: Request) -> None:
        self.tally.count(Counter.REQUESTS_RECEIVED)
        self.tally.count(Counter.PROMPT_TOKENS_RECEIVED, request.prompt)
        self._note(Latency.PROMPT_TOKENS, request.prompt)
        self.waiting.append(request)

    def advance(self, until_s: float) -> None:
        """Runs steps that begin before `until_s`."""
        while self._clock_s < until_s:
            if not self.load:
                self._clock_s = until_s
                return
            self._clock_s += self._step()
        self._count_late(until_s)

    def _step(self) -> float:
        while self.waiting and len(self.running) < self.seqs:
            self.running.append(self.waiting.popleft())
        decoding = [r for r in self.running if r.prefilled == r.prompt]
        room, context = self.budget - len(decoding), 0.0
        chunks: list[tuple[Request, int]] = []
        for request in self.running:
            if room > 0 and request.prefilled < request.prompt:
                size = min(room, request.prompt - request.prefilled)
                room -= size
                chunks.append((request, size))
                context += size * (request.prefilled + size)
        return self._execute(decoding, chunks, context, full=room <= 0)

    def _execute(
        self,
        decoding: list[Request],
        chunks: list[tuple[Request, int]],
        context: float,
        *,
        full: bool,
    ) -> float:
        prefill = float(sum(size for _, size in chunks))
        resident = float(sum(r.prompt + r.made for r in decoding))
        resident += sum(r.prefilled + size for r, size in chunks)
        took_s = self.step_time(prefill, float(len(decoding)), resident, context)
        end_s = self._clock_s + took_s
        kind = StepClass.DECODE_ONLY
        if chunks:
            kind = StepClass.MIXED if decoding else StepClass.PREFILL_ONLY
        self.tally.step(kind, (prefill, float(len(decoding)), resident, context, took_s))
        self.tally.count(Counter.STEPS_AT_BUDGET, float(full))
        for request, size in chunks:
            request.prefilled += size
            if request.prefilled == request.prompt:
                self._first_token(request, end_s)
        for request in decoding:
            self._next_token(request, end_s)
        return took_s

    def _first_token(self, request: Request, end_s: float) -> None:
        waited_s = end_s - request.arrived_s
        if not request.late:
            good = 1e3 * waited_s <= self._targets.ttft[1]
            self.tally.judge("TTFT", self._targets.ttft, good=good)
        self._note(Latency.TTFT, waited_s)
        request.made, request.last_s = 1, end_s

    def _next_token(self, request: Request, end_s: float) -> None:
        gap_s = end_s - request.last_s
        self._note(Latency.ITL, gap_s)
        self.tally.judge("ITL", self._targets.itl, good=1e3 * gap_s <= self._targets.itl[1])
        self.tally.count(Counter.GENERATION_TOKENS)
        request.made, request.last_s = request.made + 1, end_s
        if request.made >= request.output:
            self.running.remove(request)
            self.finished.append(request)
            self.tally.count(Counter.REQUESTS_FINISHED)
            self._note(Latency.GENERATION_TOKENS, request.made)

    def _count_late(self, now_s: float) -> None:
        for request in (*self.waiting, *self.running):
            late = 1e3 * (now_s - request.arrived_s) > self._targets.ttft[1]
            if late and not request.late and not request.made:
                request.late = True
                self.tally.judge("TTFT", self._targets.ttft, good=False)

    def _note(self, kind: Latency, value: float) -> None:
        self.tally.samples.setdefault(kind, []).append(value)


def _histogram(kind: Latency, values: list[float]) -> Histogram:
    by_token = kind in (Latency.PROMPT_TOKENS, Latency.GENERATION_TOKENS)
    edges = tuple(float(e) for e in (TOKEN_EDGES if by_token else EDGES))
    counts = [0.0] * len(edges)
    for value in values:
        counts[next(i for i, edge in enumerate(edges) if value <= edge)] += 1
    return Histogram(edges, tuple(counts), sum(values))
