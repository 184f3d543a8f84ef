"""Answer of GET /admin/memory: the plan, what limits it, and what is measured now.

::

    {"plan": {"runtime": 1, "weights": 2, "activations": 3, "logits": 4, "buffers": 5,
              "queue": 6, "server": 7, "kvCache": 8},
     "plannedBytes": 36, "kvBlocks": 2, "kvBlockBytes": 4,
     "limit": {"source": "cgroup v2", "totalBytes": 90, "usableBytes": 80},
     "measured": {"serverBytes": 6, "engineBytes": 20, "availableBytes": 54},
     "headroomBytes": 44}
"""

from __future__ import annotations

from paceline_engine.server.admin_wire import AdminModel
from paceline_engine.server.memory_watch import MemoryReading, MemoryWatch


class LimitReport(AdminModel):
    """What the plan was held against; see `PlannedMemory`."""

    source: str
    total_bytes: int
    usable_bytes: int


class MeasuredReport(AdminModel):
    """See `MemoryReading`."""

    server_bytes: int
    engine_bytes: int
    available_bytes: int


class MemoryResponse(AdminModel):
    """The whole answer; `plan` is by part, in bytes."""

    plan: dict[str, int]
    planned_bytes: int
    kv_blocks: int
    kv_block_bytes: int
    limit: LimitReport
    measured: MeasuredReport
    headroom_bytes: int


def memory_response(watch: MemoryWatch, reading: MemoryReading) -> MemoryResponse:
    """Puts plan and reading into the answer's form."""
    planned, plan = watch.planned, watch.planned.plan
    return MemoryResponse(
        plan=plan.parts,
        planned_bytes=plan.total_bytes,
        kv_blocks=plan.num_kv_blocks,
        kv_block_bytes=plan.block_bytes,
        limit=LimitReport(
            source=planned.limit.source,
            total_bytes=planned.limit.total_bytes,
            usable_bytes=planned.usable_bytes,
        ),
        measured=MeasuredReport(
            server_bytes=reading.server_bytes,
            engine_bytes=reading.engine_bytes,
            available_bytes=reading.available_bytes,
        ),
        headroom_bytes=reading.headroom_bytes,
    )
