"""Every figure of a few simulated minutes, to compare two builds of the same code.

python -m bench.conformance.fingerprint
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from bench.conformance.bars import OURS
from bench.conformance.cell import Cell
from bench.conformance.load_case import LoadCase
from bench.conformance.loads import loads
from bench.conformance.run_cell import run_cell
from bench.conformance.stretch import Stretch
from bench.conformance.tuning import Tuning

STRETCHES = ("8k-context:1620-1980", "hit-rate-drop:1680-1920")
TUNING = Tuning(budget=512, peak_replicas=3, first_replicas=2, mean_replicas=2)


def fingerprint() -> str:
    """Lines of JSON, one for each stretch, the same for the same code."""
    known = {case.name: case for case in loads(None)}
    return "\n".join(_of(Stretch.read(text), known) for text in STRETCHES)


def _of(stretch: Stretch, known: Mapping[str, LoadCase]) -> str:
    score = run_cell(Cell(load=stretch.load, policy=OURS), stretch.of(known[stretch.load]), TUNING)
    return json.dumps(replace(score, wall_s=0.0).as_json())


if __name__ == "__main__":
    print(fingerprint())
