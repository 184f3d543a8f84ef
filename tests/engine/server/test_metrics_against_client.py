"""Metrics and request log of a started server against what its clients measured themselves."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from paceline_engine.sizes import SIMULATED_KV_BYTES_PER_TOKEN
from tests.support.engine_server import EngineServer, engine_server, eventually
from tests.support.timed_call import TimedCall

LEAST_BOUND_S = 0.005
RELATIVE_BOUND = 0.02
ROUNDS = 4
LEAST_TTFT_S = 1.5  # of paced calls: 2 % of it is 30 ms, several turns of a busy machine
Records = dict[tuple[str, int], dict[str, Any]]


class Load:
    """Calls that were made, and what the server wrote of them."""

    def __init__(self, server: EngineServer, log: Path) -> None:
        self.server = server
        self._log = log
        self._numbers = count()
        self.calls: list[TimedCall] = []

    def call(self, **body: Any) -> TimedCall:
        leaving = {key: body.pop(key) for key in ("leave_after", "leave_after_s") if key in body}
        name = f"call-{next(self._numbers)}"
        made = TimedCall(self.server.api, name, {"seed": len(self.calls), **body}, **leaving)
        self.calls.append(made)
        made.start()
        return made

    def arrive(self) -> None:
        """Waits until all that was asked for is admitted or refused."""
        asked = sum(requests(call) for call in self.calls)
        eventually(lambda: self.server.value("requests_received_total") == asked)

    def join(self) -> None:
        for each in self.calls:
            each.join()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def records(self, expected: int) -> Records:
        eventually(lambda: len(self.lines()) >= expected, within_s=30)
        found = {(line["request_id"], line["index"]): line for line in self.lines()}
        assert len(found) == len(self.lines()), "a request has two lines"
        return found


def serve(log: Path, *flags: str, law: str) -> Iterator[Load]:
    with engine_server(f"--request-log={log}", *flags, law=law) as server:
        yield Load(server, log)


@pytest.fixture
def paced(tmp_path: Path) -> Iterator[Load]:
    """Steps of 100 ms and at most 64 tokens: a prompt of 1,000 tokens holds up others for 1.6 s."""
    flags = ("--max-num-seqs=32", "--max-num-batched-tokens=64", "--max-queued-requests=40")
    yield from serve(tmp_path / "log", *flags, law="base_ms=100,per_token_ms=0")


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Load]:
    """A KV cache of 320 tokens, so that requests of 100 preempt each other."""
    flags = (
        "--max-model-len=160",
        f"--kv-cache-memory={320 * SIMULATED_KV_BYTES_PER_TOKEN}",
    )
    yield from serve(tmp_path / "log", *flags, law="base_ms=4,per_token_ms=0")


def mixed_round(load: Load) -> None:
    """Streams, choices, whole answers, clients that leave early or late, and a refused call.

    The first prompt keeps the interactive tier busy for `LEAST_TTFT_S`; that of the batch tier,
    which gets every fifth token meanwhile, is as long for it.
    """
    number = len(load.calls)
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    load.call(prompt=f"{number:04d}" * 256, max_tokens=12, **usage)
    load.arrive()
    load.call(prompt=f"flex{number:04d}" * 60, max_tokens=12, service_tier="flex", **usage)
    for each in range(3):
        load.call(prompt=f"{number + each:04d}" * (20 + 5 * each), max_tokens=12, **usage)
    for choices in (2, 4, 8):
        load.call(prompt=f"{choices} of {number:04d}" * 10, max_tokens=12, n=choices, **usage)
    load.call(prompt=f"{number:04d}" * 60, max_tokens=12, echo=True, logprobs=5, **usage)
    load.call(prompt=[f"whole {number}", f"other {number}"], max_tokens=10, n=2)
    load.call(prompt=f"single {number}", max_tokens=12)
    load.call(prompt=f"three {number}", max_tokens=8, n=3)
    load.call(prompt=f"leave {number}", max_tokens=400, stream=True, leave_after=3)
    load.call(prompt=f"gone {number:04d}" * 60, max_tokens=5, stream=True, leave_after_s=0.3)
    load.arrive()
    load.call(prompt=["refused"] * 36, max_tokens=1)


def requests(call: TimedCall) -> int:
    """Choices x prompts."""
    prompt = call.body["prompt"]
    return int(call.body.get("n", 1)) * (len(prompt) if isinstance(prompt, list) else 1)


def completed_streams(load: Load) -> list[TimedCall]:
    kept = (each for each in load.calls if each.body.get("stream") and each.status == 200)
    stayed = (each for each in kept if each.leave_after is None and each.leave_after_s is None)
    return [each for each in stayed if each.body.get("stream_options")]


def share_of_bound(measured_s: float, told_s: float) -> float:
    return abs(measured_s - told_s) / max(LEAST_BOUND_S, RELATIVE_BOUND * measured_s)


def assert_within_bound(shares: list[float]) -> None:
    p95 = statistics.quantiles(shares, n=20, method="inclusive")[-1]
    assert statistics.median(shares) <= 1, sorted(shares)
    assert p95 <= 1, sorted(shares)


def assert_counts(load: Load, records: Records, refused: int) -> None:
    """Every histogram and counter has exactly what the lines, and so the clients, have."""
    value, lines = load.server.value, list(records.values())
    tiers = Counter(line["tier"] for line in lines)
    begun = [line for line in lines if line["emissions"]]
    whole = [line for line in lines if line["outcome"] in ("stop", "length")]
    for tier, admitted in tiers.items():
        overloaded = refused if tier == "interactive" else 0
        assert value("requests_received_total", tier=tier) == admitted + overloaded
    assert value("rejected_total") == value("rejected_total", reason="queued_requests") == refused
    outcomes = Counter(line["outcome"] for line in lines)
    for outcome in ("stop", "length", "abort", "gone", "error"):
        assert value("requests_total", outcome=outcome) == outcomes[outcome], outcome
    assert value("time_to_first_token_seconds_count") == len(begun)
    gaps = sum(line["emissions"] - 1 for line in begun)
    assert value("inter_token_latency_seconds_count") == gaps
    assert value("request_duration_seconds_count") == len(whole)
    assert value("request_generation_tokens_count") == len(whole)
    several = [line for line in whole if line["output_tokens"] > 1]
    assert value("request_time_per_output_token_seconds_count") == len(several)
    ttft_s = sum(line["ttft_s"] for line in begun)
    assert value("time_to_first_token_seconds_sum") == pytest.approx(ttft_s)
    assert value("generation_tokens_total") == sum(line["output_tokens"] for line in lines)


def stream_shares(load: Load, records: Records) -> tuple[list[float], list[float]]:
    """Differences in TTFT and mean ITL, as shares of their bounds."""
    ttft, itl = [], []
    for call in completed_streams(load):
        for index, emitted_at in call.emissions().items():
            line = records[call.request_id, index]
            assert line["emissions"] == len(emitted_at)
            assert line["outcome"] == "length"
            ttft_s = emitted_at[0] - call.sent_at
            assert ttft_s > LEAST_TTFT_S
            ttft.append(share_of_bound(ttft_s, line["ttft_s"]))
            mean_s = (emitted_at[-1] - emitted_at[0]) / (len(emitted_at) - 1)
            itl.append(share_of_bound(mean_s, line["mean_itl_s"]))
    return ttft, itl


def whole_shares(load: Load, records: Records) -> list[float]:
    """Differences in the time to whole answers, as shares of their bounds."""
    shares = []
    for call in load.calls:
        if call.status == 200 and not call.body.get("stream"):
            lines = [line for key, line in records.items() if key[0] == call.request_id]
            last_s = max(line["e2e_s"] for line in lines)
            shares.append(share_of_bound(call.ended_at - call.sent_at, last_s))
    return shares


def assert_leavers(load: Load, records: Records) -> None:
    left = [records[c.request_id, 0] for c in load.calls if c.leave_after is not None]
    assert {line["outcome"] for line in left} == {"abort"}
    assert all(line["emissions"] >= 3 for line in left)
    gone = [records[c.request_id, 0] for c in load.calls if c.leave_after_s is not None]
    assert {line["outcome"] for line in gone} == {"gone"}


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.behaviour(
    "TTFT and mean ITL of each request are what its client measured, and histograms count "
    "exactly the requests and gaps there were",
    report="vllm #8115, #6337, #19776: TTFT counted too often, latencies of zero, ITL that "
    "was step latency",
)
def test_metrics_are_what_clients_measured(paced: Load) -> None:
    paced.call(prompt="warm up", max_tokens=2, stream=True)
    paced.join()
    for _ in range(ROUNDS):
        mixed_round(paced)
        paced.join()
    refused = sum(requests(each) for each in paced.calls if each.status == 429)
    assert refused
    expected = sum(requests(each) for each in paced.calls if each.status != 429)
    records = paced.records(expected)
    assert len(records) == expected
    for shares in (*stream_shares(paced, records), whole_shares(paced, records)):
        assert_within_bound(shares)
    assert_leavers(paced, records)
    assert_counts(paced, records, refused)


@pytest.mark.behaviour(
    "TTFT is counted once per request, also when it is preempted",
    report="vllm #8115, #6337: TTFT count above the number of requests",
)
def test_preempted_requests_count_once(cramped: Load) -> None:
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    for number in range(10):
        cramped.call(prompt=f"{number:04d}" * 10, max_tokens=60, **usage)
    cramped.join()
    assert cramped.server.value("preemptions_total") > 0
    records = cramped.records(10)
    tokens = 0
    for call in completed_streams(cramped):
        (emitted_at,) = call.emissions().values()
        assert records[call.request_id, 0]["emissions"] == len(emitted_at)
        tokens += call.usage()["completion_tokens"]
    assert len(records) == 10
    assert tokens == 600 == cramped.server.value("generation_tokens_total")
    assert_counts(cramped, records, refused=0)
