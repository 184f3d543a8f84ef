"""Where an engine's memory goes: the plan made before loading and its limit. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIB: Final = 1 << 20

# Share of what may be had that is left free for allocator slack and short-lived buffers.
SLACK_RATIO: Final = 0.05


class LimitSource(StrEnum):
    """What limits the memory of this process."""

    CGROUP_V1 = "cgroup v1"
    CGROUP_V2 = "cgroup v2"
    MACHINE = "MemAvailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """The nearest limit, as it stands at some moment.

    Attributes:
        source: Where it comes from.
        total_bytes: The limit itself; for the machine, all it has.
        available_bytes: What is left of it; file cache that the kernel can drop is.
    """

    source: LimitSource
    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The sum of all that the two processes keep, sized for the ceilings.

    Attributes:
        runtime_bytes: Engine process without a model: interpreter and libraries.
        weight_bytes: Weights in the form they are computed with, and the embedding.
        activation_bytes: Hidden states of one step at the ceiling budget.
        logits_bytes: Rows of the vocabulary's width, for sampling and log probabilities.
        buffer_bytes: Rotary tables, block accounting, what loading needs beyond a step.
        queue_bytes: Prompts that may wait, in both processes.
        server_bytes: Server process: HTTP, tokenizer, metrics.
        block_bytes: One KV block over all layers.
        num_kv_blocks: Blocks in the pool.
    """

    runtime_bytes: int = 0
    weight_bytes: int = 0
    activation_bytes: int = 0
    logits_bytes: int = 0
    buffer_bytes: int = 0
    queue_bytes: int = 0
    server_bytes: int = 0
    block_bytes: int = 0
    num_kv_blocks: int = 0

    @property
    def kv_bytes(self) -> int:
        """The whole KV pool."""
        return self.num_kv_blocks * self.block_bytes

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by name, in the order of the sum."""
        return {
            "runtime": self.runtime_bytes,
            "weights": self.weight_bytes,
            "activations": self.activation_bytes,
            "logits": self.logits_bytes,
            "buffers": self.buffer_bytes,
            "queue": self.queue_bytes,
            "server": self.server_bytes,
            "kvCache": self.kv_bytes,
        }

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return sum(self.parts.values())

    @property
    def arithmetic(self) -> str:
        """The sum in one line, in MiB."""
        named = [f"{name} {mib(size)}" for name, size in self.parts.items() if name != "kvCache"]
        blocks = f"({self.num_kv_blocks} blocks of {self.block_bytes // 1024} KiB)"
        return (
            f"{' + '.join(named)} + KV {mib(self.kv_bytes)} {blocks} = {mib(self.total_bytes)} MiB"
        )

    def table(self) -> list[str]:
        """Lines of an aligned table in MiB."""
        rows = {**self.parts, "total": self.total_bytes}
        width = max(len(f"{mib(size):,}") for size in rows.values())
        return [f"{name:<12} {mib(size):>{width},} MiB" for name, size in rows.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMemory:
    """A plan that holds, with the limit that it was held against.

    Attributes:
        plan: What is kept.
        limit: The nearest limit before anything was loaded.
        usable_bytes: What both processes may have under it: what was left of it, and what
            the server process had by then.
    """

    plan: MemoryPlan
    limit: MemoryLimit
    usable_bytes: int

    @property
    def verdict(self) -> str:
        """The arithmetic and how it ends, in one line."""
        spare = mib(self.usable_bytes - self.plan.total_bytes)
        return (
            f"{self.plan.arithmetic} of {mib(self.usable_bytes)} MiB usable "
            f"({self.limit.source}), {spare} MiB spare"
        )


def mib(size: int) -> int:
    """Whole MiB, rounded up."""
    return -(-size // MIB)
