from __future__ import annotations

from paceline_engine.message import LoopState
from paceline_engine.server import metric_names as names
from paceline_engine.server.loop_metrics import LoopCollector

STATE = LoopState(
    requests_running=5,
    requests_waiting=7,
    waiting_tokens=900,
    kv_blocks_free=6,
    kv_blocks_held=3,
    kv_blocks_cached=1,
    max_num_batched_tokens=512,
    max_num_running_seqs=8,
    prefix_queries_tokens=640,
    prefix_hits_tokens=128,
    batch_running=2,
    batch_waiting=6,
    batch_waiting_tokens=850,
)


def samples(family: names.Family) -> dict[str, float]:
    """Values of a family by tier, or under the empty name where it has none."""
    collector = LoopCollector(
        "m", state=lambda: STATE, revision=lambda: 3, block_size=16, num_kv_blocks=10
    )
    found = {each.name: each for each in collector.collect()}
    return {
        sample.labels.get("tier", ""): sample.value
        for sample in found[family.full_name.removesuffix("_total")].samples
    }


def test_gauges_tell_the_tiers_apart() -> None:
    assert samples(names.REQUESTS_RUNNING) == {"interactive": 3, "batch": 2}
    assert samples(names.REQUESTS_WAITING) == {"interactive": 1, "batch": 6}
    assert samples(names.WAITING_TOKENS) == {"interactive": 50, "batch": 850}


def test_the_prefix_cache_is_counted_in_tokens() -> None:
    assert samples(names.PREFIX_QUERIES) == {"": 640}
    assert samples(names.PREFIX_HITS) == {"": 128}
