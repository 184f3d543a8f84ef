"""Draws attainment against replica-hours, one panel for each load: up and to the left is better."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import ceil

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.conformance.bars import ATTAINMENT, OURS
from bench.conformance.cell import Cell, Score
from bench.conformance.seeds import by_contestant, middle

mpl.use("Agg")

COLUMNS = 3
OURS_COLOUR, GRID_COLOUR, BAR_COLOUR = "#2563eb", "#e4e7eb", "#b91c1c"
LOWEST = 0.5
"""Below that attainment a point is drawn at the edge: how bad bad is tells nobody anything."""

Points = Mapping[str, Sequence[Score]]
"""Scores of each contestant, one for each setting."""


def points_of(scores: Mapping[Cell, Score], load: str, cold_start_s: int) -> dict[str, list[Score]]:
    """What one panel shows, from dear to cheap; of several seeds the middle."""
    found: dict[str, list[Score]] = {}
    for (policy, _), by_seed in by_contestant(scores, load, cold_start_s).items():
        found.setdefault(policy, []).append(middle(by_seed.values()))
    for settings in found.values():
        settings.sort(key=lambda score: -score.replica_hours)
    return found


def png(panels: Mapping[str, Points]) -> bytes:
    """The picture.

    Args:
        panels: What each panel shows, by its title.
    """
    rows = ceil(len(panels) / COLUMNS)
    figure = Figure(figsize=(5.2 * COLUMNS, 4.0 * rows + 0.8), layout="constrained")
    names = sorted({name for points in panels.values() for name in points} - {OURS})
    styles = {name: _style(place) for place, name in enumerate(names)}
    for place, (title, points) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, COLUMNS, place + 1)
        _panel(axes, title, points, styles)
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside lower center",
        ncols=6,
        fontsize=8,
        frameon=False,
    )
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=110)
    return target.getvalue()


def _style(place: int) -> tuple[str, str]:
    colours = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]  # a listed colormap
    return mpl.colors.to_hex(colours[place % len(colours)]), "os^vDPX*"[place % 8]


def _panel(axes: Axes, title: str, points: Points, styles: Mapping[str, tuple[str, str]]) -> None:
    for name, scores in points.items():
        if name == OURS:
            continue
        colour, marker = styles[name]
        axes.plot(*_columns(scores), color=colour, marker=marker, markersize=4, linewidth=0.8,
                  label=name)  # fmt: skip
    if OURS in points:
        axes.plot(*_columns(points[OURS]), color=OURS_COLOUR, marker="*", markersize=16,
                  linestyle="none", label=OURS, zorder=5)  # fmt: skip
    axes.axhline(100 * ATTAINMENT, color=BAR_COLOUR, linewidth=0.8, linestyle="--")
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel("replica-hours", fontsize=8)
    axes.set_ylabel("requests within all objectives, %", fontsize=8)
    axes.set_ylim(100 * LOWEST - 2, 101)
    axes.tick_params(labelsize=8)
    axes.grid(color=GRID_COLOUR, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _columns(scores: Sequence[Score]) -> tuple[list[float], list[float]]:
    hours = [score.replica_hours for score in scores]
    return hours, [100 * max(LOWEST, score.attainment) for score in scores]
