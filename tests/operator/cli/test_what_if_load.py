from __future__ import annotations

from paceline_operator.cli import what_if_load
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
