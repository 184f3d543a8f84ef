from __future__ import annotations

from paceline_engine.memory import MIB, LimitSource, MemoryLimit, MemoryPlan, PlannedMemory

PLAN = MemoryPlan(
    runtime_bytes=620 * MIB,
    weight_bytes=622 * MIB,
    activation_bytes=19 * MIB,
    logits_bytes=10 * MIB,
    buffer_bytes=3 * MIB,
    queue_bytes=77 * MIB,
    server_bytes=130 * MIB,
    block_bytes=720 * 1024,
    num_kv_blocks=5_820,
)


def test_the_sum_is_that_of_its_parts() -> None:
    assert PLAN.kv_bytes == 5_820 * 720 * 1024
    assert PLAN.total_bytes == (620 + 622 + 19 + 10 + 3 + 77 + 130) * MIB + PLAN.kv_bytes
    assert PLAN.arithmetic == (
        "runtime 620 + weights 622 + activations 19 + logits 10 + buffers 3 + queue 77 + "
        "server 130 + KV 4093 (5820 blocks of 720 KiB) = 5574 MiB"
    )


def test_the_table_is_aligned() -> None:
    table = PLAN.table()
    assert table[1] == "weights        622 MiB"
    assert table[-1] == "total        5,574 MiB"
    assert len({len(line) for line in table}) == 1
    assert len(table) == len(PLAN.parts) + 1


def test_the_verdict_names_the_limit() -> None:
    limit = MemoryLimit(
        source=LimitSource.CGROUP_V1, total_bytes=8 << 30, available_bytes=7000 * MIB
    )
    planned = PlannedMemory(plan=PLAN, limit=limit, usable_bytes=7100 * MIB)
    assert planned.verdict == (f"{PLAN.arithmetic} of 7100 MiB usable (cgroup v1), 1527 MiB spare")
