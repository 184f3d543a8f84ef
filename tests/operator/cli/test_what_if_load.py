from __future__ import annotations

from pathlib import Path

import pytest

from paceline_operator.cli import what_if_load
from paceline_operator.cli.errors import CliError
from paceline_operator.metrics.load_history import History
from paceline_operator.simulator.loads.reconstruction import Reconstruction


def test_a_tier_that_is_left_out_is_named_with_what_it_received() -> None:
    found = History(
        load=Reconstruction(), step_s=30.0, window_s=60.0, scrape_s=15.0, hit_share=0.0,
        kv_tokens=None, left_out={"batch": 39.8},
    )  # fmt: skip
    assert what_if_load._left_out_notes(found) == (
        "Left out: the tier 'batch', of whose 40 requests none ended in that time, so that no "
        "lengths are known.",
    )


def test_a_trace_whose_times_are_no_seconds_is_refused(tmp_path: Path) -> None:
    """One that names milliseconds would be played for hours."""
    trace = tmp_path / "load.csv"
    lines = "".join(f"{1000 * second},100,10\n" for second in range(0, 4000, 100))
    trace.write_text(f"arrival_s,prompt_tokens,output_tokens\n{lines}")
    with pytest.raises(CliError, match=r"46\.3 d, and 31\.0 d are played at most; .*seconds"):
        what_if_load.from_trace(trace, 1.0)
