"""What people read off the figures: labels that do not overlap, whole replicas."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.figure import Figure

from e2e.demo.plot import Picture, label_lines, laid_out
from e2e.demo.timeline import Sample

PHASES = [(5.0, "before"), (82.0, "after"), (80.0, "tuning on")]


@pytest.fixture(scope="module")
def figure() -> Figure:
    times = [float(n) for n in range(180)]
    made = laid_out(
        Picture(
            title="t",
            started_s=0.0,
            arrivals_s=times,
            ttft=[(at_s, 100.0) for at_s in times],
            itl=[(at_s, 50.0) for at_s in times],
            ttft_target_ms=200,
            itl_target_ms=100,
            samples=[Sample(at_s=at_s, budget=64, replicas=2, ready=2) for at_s in times],
            decisions=[],
            phases=PHASES,
        )
    )
    made.draw_without_rendering()
    return made


def test_no_label_lies_over_another(figure: Figure) -> None:
    labels = [text for text in figure.axes[0].texts if text.get_text()]
    assert len(labels) == len(PHASES)
    boxes = [label.get_window_extent() for label in labels]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_replicas_are_whole(figure: Figure) -> None:
    ticks = figure.axes[3].get_yticks()
    assert [tick for tick in ticks if tick != int(tick)] == []


def test_labels_share_a_line_where_there_is_room() -> None:
    placed = label_lines([(0.0, "a"), (1.0, "b"), (2.0, "c"), (50.0, "d")], 100.0)
    assert placed == [(0.0, "a", 0), (1.0, "b", 1), (2.0, "c", 0), (50.0, "d", 0)]
