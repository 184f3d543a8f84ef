"""Draws one part of the demo: latency against targets, budget, replicas, load, decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from e2e.demo.timeline import Decision, Sample

mpl.use("Agg")

WINDOW_S = 10.0
CHARACTER_SHARE = 0.008
"""Part of an axis' width that a character of a label takes, rather more than less."""
INK, GRID, BLUE, ORANGE, GREEN, RED = (
    "#1f2933",
    "#e4e7eb",
    "#2563eb",
    "#ea580c",
    "#059669",
    "#b91c1c",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What one figure shows; all times are Unix seconds.

    Attributes:
        title: Headline.
        started_s: Time that becomes zero.
        arrivals_s: When requests were sent.
        ttft: (time, milliseconds) of each first token.
        itl: (time, milliseconds) of each gap between tokens.
        ttft_target_ms: Objective.
        itl_target_ms: Objective.
        samples: The fleet over time.
        decisions: Moves to mark.
        phases: (start, name) of what the load did.
    """

    title: str
    started_s: float
    arrivals_s: Sequence[float]
    ttft: Sequence[tuple[float, float]]
    itl: Sequence[tuple[float, float]]
    ttft_target_ms: float
    itl_target_ms: float
    samples: Sequence[Sample]
    decisions: Sequence[Decision]
    phases: Sequence[tuple[float, str]]


def windowed_p95(
    points: Sequence[tuple[float, float]], started_s: float
) -> tuple[list[float], list[float]]:
    """95th percentile in windows of ten seconds: (window middles, values)."""
    windows: dict[int, list[float]] = {}
    for at_s, value in points:
        windows.setdefault(int((at_s - started_s) // WINDOW_S), []).append(value)
    middles = [(index + 0.5) * WINDOW_S for index in sorted(windows)]
    values = [quantile(windows[index], 0.95) for index in sorted(windows)]
    return middles, values


def quantile(values: Sequence[float], q: float) -> float:
    """Smallest value with at least a share q of all at or below it."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(q * 1000) * len(ordered) // 1000) - 1))]


def draw(picture: Picture, path: Path) -> None:
    """Writes the figure as PNG."""
    laid_out(picture).savefig(path)


def laid_out(picture: Picture) -> Figure:
    """The figure, ready to be written."""
    figure = Figure(figsize=(11, 11.5), dpi=110, facecolor="white", layout="constrained")
    axes = figure.subplots(5, 1, sharex=True, height_ratios=[3, 3, 2, 2, 2])
    figure.suptitle(picture.title, fontsize=14, fontweight="bold", color=INK, x=0.01, ha="left")
    _latency(axes[0], picture, picture.ttft, picture.ttft_target_ms, "TTFT p95, ms")
    _latency(axes[1], picture, picture.itl, picture.itl_target_ms, "ITL p95, ms")
    _budget(axes[2], picture)
    _replicas(axes[3], picture)
    _load(axes[4], picture)
    for axis in axes:
        _finish(axis, picture)
    _name_phases(axes[0], picture)
    axes[-1].set_xlabel("seconds")
    return figure


def _latency(
    axis: Axes,
    picture: Picture,
    points: Sequence[tuple[float, float]],
    target_ms: float,
    label: str,
) -> None:
    times, values = windowed_p95(points, picture.started_s)
    axis.plot(times, values, color=BLUE, marker="o", markersize=3, label="measured at the client")
    axis.axhline(target_ms, color=RED, linestyle="--", linewidth=1.2, label=f"target {target_ms:g}")
    above = [value > target_ms for value in values]
    axis.fill_between(times, values, target_ms, where=above, color=RED, alpha=0.12)
    axis.set_ylim(0, 1.3 * max([target_ms, *values]))
    axis.set_ylabel(label)
    axis.legend(loc="upper right", frameon=False, fontsize=8)


def _steps(picture: Picture, values: Sequence[float | None]) -> tuple[list[float], list[float]]:
    pairs = [
        (sample.at_s - picture.started_s, value)
        for sample, value in zip(picture.samples, values, strict=True)
        if value is not None
    ]
    return [time for time, _ in pairs], [value for _, value in pairs]


def _budget(axis: Axes, picture: Picture) -> None:
    times, values = _steps(picture, [sample.budget for sample in picture.samples])
    axis.step(times, values, where="post", color=ORANGE, linewidth=1.8)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("token budget\nin force")
    for decision in picture.decisions:
        if decision.knob != "replicas":
            axis.axvline(decision.at_s - picture.started_s, color=ORANGE, alpha=0.35, linewidth=1)


def _replicas(axis: Axes, picture: Picture) -> None:
    times, pods = _steps(picture, [sample.replicas for sample in picture.samples])
    _, ready = _steps(picture, [sample.ready for sample in picture.samples])
    axis.step(times, pods, where="post", color=GREEN, alpha=0.4, linewidth=1.8, label="pods")
    axis.step(times, ready, where="post", color=GREEN, linewidth=1.8, label="ready")
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_ylabel("replicas")
    axis.legend(loc="upper right", frameon=False, fontsize=8)
    for decision in picture.decisions:
        if decision.knob == "replicas":
            axis.axvline(decision.at_s - picture.started_s, color=GREEN, alpha=0.35, linewidth=1)


def _load(axis: Axes, picture: Picture) -> None:
    counts: dict[int, int] = {}
    for at_s in picture.arrivals_s:
        index = int((at_s - picture.started_s) // WINDOW_S)
        counts[index] = counts.get(index, 0) + 1
    middles = [(index + 0.5) * WINDOW_S for index in sorted(counts)]
    rates = [counts[index] / WINDOW_S for index in sorted(counts)]
    axis.bar(middles, rates, width=WINDOW_S * 0.9, color="#9aa5b1")
    axis.set_ylabel("requests/s\noffered")


def _finish(axis: Axes, picture: Picture) -> None:
    axis.grid(color=GRID)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)
    for at_s, _ in picture.phases:
        axis.axvline(at_s - picture.started_s, color=INK, linewidth=0.8, linestyle=":")


def _name_phases(axis: Axes, picture: Picture) -> None:
    low, high = axis.get_xlim()
    for at_s, name, line in label_lines(picture.phases, high - low):
        axis.annotate(
            name,
            (at_s - picture.started_s, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -10 - 11 * line),
            textcoords="offset points",
            fontsize=8,
            color=INK,
        )


def label_lines(phases: Sequence[tuple[float, str]], span_s: float) -> list[tuple[float, str, int]]:
    """Gives each label the highest line where none before it reaches into it.

    Args:
        phases: (start, name).
        span_s: Width of the axis.

    Returns:
        (start, name, line from the top), by start.
    """
    ends: list[float] = []
    placed = []
    for at_s, name in sorted(phases):
        line = next((n for n, end_s in enumerate(ends) if end_s <= at_s), len(ends))
        ends[line : line + 1] = [at_s + span_s * CHARACTER_SHARE * (len(name) + 1)]
        placed.append((at_s, name, line))
    return placed
