"""Loads from recorded traces: how often each is superposed, how long it lasts, who serves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path

from bench.conformance.load_case import LoadCase, Service
from bench.conformance.shape import Shape, measure
from bench.conformance.sizing import replicas
from paceline_operator.cli.what_if.trace_file import ENDINGS, trace_paths, trace_tape
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.superpose import Tape, jitter, superpose, until
from paceline_operator.simulator.request import Request

SHORTEST_S = 3000.0
"""Ten cold starts of five minutes."""
COARSE_GRID_S = 1.0
WANTED_REPLICAS = 4.0
MOST_COPIES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is made of a trace.

    Attributes:
        copies: How many of it at once.
        service: Who serves it.
        spread_s: Among how many of its first seconds the copies begin.
        grid_s: Grid to which its arrivals were rounded, 0 for none.
        steps_up_at_s: As in `LoadCase`, of the trace itself; `is_threefold` too.
    """

    copies: int
    service: Service
    spread_s: float = 120.0
    grid_s: float = 0.0
    steps_up_at_s: tuple[float, ...] = ()
    is_threefold: bool = False


_SMALL = Service(profile="llama-3-8b-a100", ttft_ms=1000, itl_ms=50)
_LARGE = Service(profile="llama-3-70b-a100-tp4", ttft_ms=2000, itl_ms=100)
_LONG = Service(profile="llama-3-8b-a100", ttft_ms=15000, itl_ms=60)
_REASONING = Service(profile="llama-3-8b-h100", ttft_ms=4000, itl_ms=60, max_num_seqs=256)
RECIPES = {
    "azure2023_conv": Recipe(copies=5, service=_SMALL),
    "mooncake_synthetic": Recipe(copies=1, service=_LONG),
    "mooncake_synthetic_prefix": Recipe(copies=1, service=_LONG),
    "aibrix_8min_up_and_down": Recipe(copies=6, service=_LARGE, spread_s=30.0),
    # Prompt tokens jump fourfold after 3,000 s; copies reach that within two minutes.
    "servegen_mmid_step": Recipe(copies=5, service=_LARGE, steps_up_at_s=(2940.0,)),
    "servegen_deepseek_r1": Recipe(copies=1, service=_REASONING),
    "synthetic_step3x": Recipe(
        copies=3,
        service=_LARGE,
        spread_s=10.0,
        steps_up_at_s=(600.0,),
        is_threefold=True,
    ),
}


def trace_loads(folder: Path, most_requests: int | None = None) -> tuple[LoadCase, ...]:
    """A load of each trace in a folder, also of those that no recipe knows.

    Args:
        folder: Where they are.
        most_requests: See `trace_load`.

    Raises:
        TraceError: The folder holds none, or one that cannot be used.
    """
    return tuple(trace_load(path, most_requests) for path in trace_paths(folder))


def trace_load(path: Path, most_requests: int | None = None) -> LoadCase:
    """The load of one file, which is read through for it.

    Args:
        path: The file.
        most_requests: Of a trace that no recipe knows, with all its copies: what comes later is
            not played, as far as that leaves `SHORTEST_S` of it. None for the whole.

    Raises:
        TraceError: It cannot be used.
    """
    tape, name = trace_tape(path), trace_name(path)
    whole_s = duration_s = tape.span_s * ceil(SHORTEST_S / tape.span_s)
    recipe = RECIPES.get(name)
    if recipe is None:
        shape = measure(tape.play())
        recipe = guessed(shape)
        if most_requests is not None:
            enough_s = most_requests * tape.span_s / (shape.requests * recipe.copies)
            duration_s = min(whole_s, max(SHORTEST_S, enough_s))
    return LoadCase(
        name=name,
        play=partial(_play, tape, recipe, duration_s),
        duration_s=duration_s,
        service=recipe.service,
        steps_up_at_s=_in_laps(recipe.steps_up_at_s, tape.span_s, duration_s),
        is_threefold=recipe.is_threefold,
        trace=path,
        left_out_s=whole_s - duration_s,
    )


def _in_laps(times_s: tuple[float, ...], span_s: float, duration_s: float) -> tuple[float, ...]:
    """The same moments in each lap of a trace that is played again and again."""
    laps = range(ceil(duration_s / span_s))
    return tuple(lap * span_s + time_s for lap in laps for time_s in times_s)


def trace_name(path: Path) -> str:
    """The file's name without its ending."""
    ending = next(ending for ending in ENDINGS if path.name.endswith(ending))
    return path.name.removesuffix(ending)


def guessed(shape: Shape) -> Recipe:
    """For a trace that nobody sized: copies for a few replicas, targets for its prompts."""
    law = _SMALL.accelerator.law
    token_ms = law.step_ms(512, 0, 0, 0) / 512
    ttft_ms = 500 * ceil(1 + 3 * shape.workload.prompt_p95 * token_ms / 500)
    service = Service(profile=_SMALL.profile, ttft_ms=ttft_ms, itl_ms=_SMALL.itl_ms)
    alone = replicas(service, shape)[0]
    return Recipe(
        copies=min(MOST_COPIES, max(1, round(WANTED_REPLICAS / alone))),
        service=service,
        grid_s=shape.grid_s if shape.grid_s >= COARSE_GRID_S else 0.0,
    )


def _play(tape: Tape, recipe: Recipe, duration_s: float, generator: Generator) -> Iterator[Request]:
    spread = min(1.0, recipe.spread_s / tape.span_s)
    copies = superpose(tape, recipe.copies, generator, spread=spread, until_s=duration_s)
    if not recipe.grid_s:
        return copies
    return until(jitter(copies, recipe.grid_s, generator), duration_s)
