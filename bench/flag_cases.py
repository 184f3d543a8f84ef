"""What is measured of each flag: two settings of it, one load, and the figures that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.clients import Group, Outcome
from bench.table import percentile

Outcomes = Mapping[str, Outcome]

PROFILE: Final = "llama-3-8b-a100"
SIMULATED: Final = ("--device=simulated", f"--profile={PROFILE}")
REAL: Final = ("--device=cpu", "--max-model-len=2048", "--kv-cache-memory=512Mi")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a load.

    Attributes:
        name: With its unit.
        of: Takes it from the outcomes by group.
    """

    name: str
    of: Callable[[Outcomes], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison.

    Attributes:
        name: Short, for `--only`.
        flag: The flag it is about.
        before: Arguments of one side.
        after: Arguments of the other.
        load: What is sent, in words.
        groups: What is sent.
        figures: What is told of it.
        real: With the real model on the CPU; else on the simulated device.
        common: Arguments of both sides.
    """

    name: str
    flag: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    load: str
    groups: tuple[Group, ...]
    figures: tuple[Figure, ...]
    real: bool = False
    common: tuple[str, ...] = ()


def rate(group: str) -> Figure:
    """Output tokens a second of a group."""
    return Figure(f"{group} tokens/s", lambda seen: seen[group].tokens_per_s)


def first(group: str, percent: int) -> Figure:
    """Time to first token of a group."""
    return Figure(
        f"{group} TTFT p{percent} ms", lambda seen: percentile(seen[group].ttft_ms, percent)
    )


def gap(group: str, percent: int) -> Figure:
    """Gap between emissions of a group."""
    return Figure(
        f"{group} gap p{percent} ms", lambda seen: percentile(seen[group].gap_ms, percent)
    )


def refused(group: str) -> Figure:
    """Share of a group's requests that were answered with 429, in percent."""

    def share(seen: Outcomes) -> float:
        outcome = seen[group]
        return 100 * outcome.refused / (outcome.refused + len(outcome.ttft_ms))

    return Figure(f"{group} refused %", share)


def share(of: str, beside: str) -> Figure:
    """Emissions of one group for each of another's, while both had something to do."""

    def ratio(seen: Outcomes) -> float:
        end_s = min(seen[group].emitted_s[-1] for group in (of, beside))
        ours, theirs = (
            sum(at_s <= end_s for at_s in seen[group].emitted_s) for group in (of, beside)
        )
        return ours / theirs

    return Figure(f"{of} : {beside} tokens", ratio)


_CHAT = Group(name="chat", clients=4, requests=2, input_tokens=64, output_tokens=96)
_LONG = Group(name="long", clients=2, requests=3, input_tokens=768, output_tokens=4, start_s=1.0)
_MANY = Group(name="all", clients=16, requests=2, input_tokens=64, output_tokens=48)
_FLOOD = Group(name="all", clients=120, requests=1, input_tokens=500, output_tokens=32)

CASES: Final = (
    Case(
        name="budget",
        flag="--max-num-batched-tokens",
        before=("--max-num-batched-tokens=512",),
        after=("--max-num-batched-tokens=128",),
        load="4 chats, then 2 clients with prompts of 768 tokens",
        groups=(_CHAT, _LONG),
        figures=(gap("chat", 95), first("long", 50), rate("chat")),
        real=True,
    ),
    Case(
        name="running",
        flag="--max-num-seqs",
        before=("--max-num-seqs=16",),
        after=("--max-num-seqs=4",),
        load="16 clients, 64 in, 48 out",
        groups=(_MANY,),
        figures=(rate("all"), gap("all", 50), first("all", 95)),
        real=True,
    ),
    Case(
        name="block-size",
        flag="--block-size",
        before=("--block-size=16",),
        after=("--block-size=32",),
        load="16 clients, 64 in, 48 out",
        groups=(_MANY,),
        figures=(rate("all"), gap("all", 50)),
        real=True,
    ),
    Case(
        name="threads",
        flag="--threads",
        before=("--threads=2",),
        after=("--threads=1",),
        load="16 clients, 64 in, 48 out",
        groups=(_MANY,),
        figures=(rate("all"), gap("all", 50)),
        real=True,
    ),
    Case(
        name="prefix",
        flag="--prefix-caching",
        before=("--prefix-caching=off",),
        after=("--prefix-caching=on",),
        load="2 clients, prompts of 544 tokens that share 512",
        groups=(
            Group(
                name="all",
                clients=2,
                requests=5,
                input_tokens=544,
                output_tokens=16,
                shared_tokens=512,
            ),
        ),
        figures=(first("all", 50), rate("all")),
        real=True,
    ),
    Case(
        name="kv",
        flag="--kv-cache-memory",
        before=("--kv-cache-memory=512Mi",),
        after=("--kv-cache-memory=96Mi",),
        load="16 clients, 96 in, 160 out",
        groups=(Group(name="all", clients=16, requests=1, input_tokens=96, output_tokens=160),),
        figures=(rate("all"), first("all", 95)),
        real=True,
        common=("--max-num-seqs=16",),
    ),
    Case(
        name="tune-for",
        flag="--tune-for",
        before=("--tune-for=throughput",),
        after=("--tune-for=latency",),
        load="24 clients, 256 in, 32 out",
        groups=(Group(name="all", clients=24, requests=1, input_tokens=256, output_tokens=32),),
        figures=(rate("all"), gap("all", 95), first("all", 50)),
        real=True,
    ),
    Case(
        name="retention",
        flag="--prefix-cache-retention-seconds",
        before=("--prefix-cache-retention-seconds=keep",),
        after=("--prefix-cache-retention-seconds=1",),
        load="a client that asks every 1.5 s, prompts of 4032 tokens that share 4000",
        groups=(
            Group(
                name="all",
                clients=1,
                requests=5,
                input_tokens=4032,
                output_tokens=4,
                shared_tokens=4000,
                pause_s=1.5,
            ),
        ),
        figures=(first("all", 50),),
    ),
    Case(
        name="batch-weight",
        flag="--batch-weight",
        before=("--batch-weight=1",),
        after=("--batch-weight=0.1",),
        load="24 interactive clients and 48 of the batch tier, 500 in, 32 out, 16 run",
        groups=(
            Group(name="interactive", clients=24, requests=3, input_tokens=500, output_tokens=32),
            Group(
                name="batch",
                clients=48,
                requests=1,
                input_tokens=500,
                output_tokens=32,
                tier="flex",
            ),
        ),
        figures=(first("interactive", 95), rate("interactive"), rate("batch")),
        common=("--max-num-seqs=16",),
    ),
    Case(
        name="batch-wait",
        flag="--batch-max-wait-seconds",
        before=("--batch-max-wait-seconds=900",),
        after=("--batch-max-wait-seconds=2",),
        load="32 interactive clients beside 4 of the batch tier, 500 in, 32 out, 8 run",
        groups=(
            Group(name="interactive", clients=32, requests=4, input_tokens=500, output_tokens=32),
            Group(
                name="batch",
                clients=4,
                requests=2,
                input_tokens=500,
                output_tokens=32,
                tier="flex",
                start_s=1.0,
            ),
        ),
        figures=(first("batch", 95), first("interactive", 95)),
        common=("--max-num-seqs=8", "--batch-weight=0.01"),
    ),
    Case(
        name="interactive-wait",
        flag="--interactive-max-wait-seconds",
        before=("--interactive-max-wait-seconds=60",),
        after=("--interactive-max-wait-seconds=1",),
        load="2 interactive clients of weight 0.02 beside 32 of weight 1, 500 in, 32 out, 8 run",
        groups=(
            Group(
                name="light",
                clients=2,
                requests=2,
                input_tokens=500,
                output_tokens=32,
                tenant="light",
                start_s=1.0,
            ),
            Group(
                name="heavy",
                clients=32,
                requests=4,
                input_tokens=500,
                output_tokens=32,
                tenant="heavy",
            ),
        ),
        figures=(first("light", 95), first("heavy", 95)),
        common=(
            "--max-num-seqs=8",
            "--trust-tenant-header=on",
            "--tenant-weights=light=0.02",
        ),
    ),
    Case(
        name="tenants",
        flag="--tenant-weights",
        before=("--tenant-weights=gold=1",),
        after=("--tenant-weights=gold=4",),
        load="two tenants with 32 clients each, 500 in, 32 out, 16 run",
        groups=tuple(
            Group(
                name=tenant,
                clients=32,
                requests=3,
                input_tokens=500,
                output_tokens=32,
                tenant=tenant,
            )
            for tenant in ("gold", "plain")
        ),
        figures=(share("gold", "plain"), first("gold", 50), first("plain", 50)),
        common=("--max-num-seqs=16", "--trust-tenant-header=on"),
    ),
    Case(
        name="tenant-header",
        flag="--trust-tenant-header",
        before=("--trust-tenant-header=off",),
        after=("--trust-tenant-header=on",),
        load="one tenant with 60 clients beside one with 4, 500 in, 32 out, 8 run",
        groups=tuple(
            Group(
                name=tenant,
                clients=clients,
                requests=requests,
                input_tokens=500,
                output_tokens=32,
                tenant=tenant,
            )
            for tenant, clients, requests in (("crowd", 60, 1), ("few", 4, 3))
        ),
        figures=(first("few", 50), first("crowd", 50)),
        common=("--max-num-seqs=8",),
    ),
    Case(
        name="queue-seconds",
        flag="--max-queue-seconds",
        before=("--max-queue-seconds=off",),
        after=("--max-queue-seconds=2",),
        load="120 clients, 500 in, 32 out, 8 run",
        groups=(_FLOOD,),
        figures=(first("all", 95), refused("all")),
        common=("--max-num-seqs=8",),
    ),
    Case(
        name="queued-requests",
        flag="--max-queued-requests",
        before=("--max-queued-requests=1024",),
        after=("--max-queued-requests=32",),
        load="120 clients, 500 in, 32 out, 8 run",
        groups=(_FLOOD,),
        figures=(first("all", 95), refused("all")),
        common=("--max-num-seqs=8",),
    ),
    Case(
        name="queued-tokens",
        flag="--max-queued-tokens",
        before=("--max-queued-tokens=1000000",),
        after=("--max-queued-tokens=16000",),
        load="120 clients, 500 in, 32 out, 8 run",
        groups=(_FLOOD,),
        figures=(first("all", 95), refused("all")),
        common=("--max-num-seqs=8",),
    ),
    Case(
        name="projected-kv",
        flag="--max-projected-kv",
        before=("--max-projected-kv=8",),
        after=("--max-projected-kv=1",),
        load="120 clients, 500 in, 32 out, 32 run, a KV cache of 16,000 tokens",
        groups=(_FLOOD,),
        figures=(first("all", 95), refused("all")),
        common=("--kv-cache-memory=2000Mi", "--max-num-seqs=32"),
    ),
    Case(
        name="request-log",
        flag="--request-log",
        before=(),
        after=("--request-log=/dev/null",),
        load="48 clients, 32 in, 32 out, steps of 5 ms",
        groups=(Group(name="all", clients=48, requests=6, input_tokens=32, output_tokens=32),),
        figures=(rate("all"), first("all", 95)),
        common=("--step-coefficients=base_ms=5,per_token_ms=0",),
    ),
)
