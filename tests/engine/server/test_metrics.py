"""The metrics page of a started server against what its clients counted."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from paceline_engine.server import metric_names as names
from tests.engine.server.conftest import MODEL
from tests.support.engine_server import EngineServer, engine_server, eventually

LAW = "base_ms=20,per_token_ms=0"
SLOS = [
    {"name": "ttft-loose", "metric": "TTFT", "targetMs": 60_000},
    {"name": "ttft-tight", "metric": "TTFT", "targetMs": 1},
    {"name": "itl-loose", "metric": "ITL", "targetMs": 60_000},
    {"name": "itl-tight", "metric": "ITL", "targetMs": 1},
    {"name": "tpot-loose", "metric": "TPOT", "targetMs": 60_000},
    {"name": "e2e-tight", "metric": "E2E", "targetMs": 1},
]


@pytest.fixture
def fresh() -> Iterator[EngineServer]:
    with engine_server(f"--served-name={MODEL}", "--max-queued-requests=2", law=LAW) as running:
        body = {"revision": 1, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 8, "slos": SLOS}
        assert httpx.put(running.admin + "/admin/tunables", json=body).status_code == 200
        yield running


def slo(server: EngineServer, name: str) -> tuple[float, float]:
    """Good and bad samples of an objective."""
    good, bad = (server.value("slo_samples_total", slo=name, outcome=o) for o in ("good", "bad"))
    return good, bad


def test_every_family_is_there_as_declared(fresh: EngineServer) -> None:
    httpx.post(fresh.api + "/v1/completions", json={"prompt": "x", "max_tokens": 2})
    page = {family.name: family for family in text_string_to_metric_families(fresh.metrics())}
    for declared in names.FAMILIES:
        name = declared.full_name
        family = page.pop(name.removesuffix("_total") if declared.kind == "counter" else name)
        assert family.type == declared.kind
        assert family.samples, name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(declared.labels), name
            assert sample.labels["model_name"] == MODEL
    assert page == {}


def test_counts_equal_what_the_client_saw(fresh: EngineServer) -> None:
    gaps: list[float] = []
    with OpenAI(base_url=f"{fresh.api}/v1", api_key="none", max_retries=0) as client:
        began_at = time.monotonic()
        stream = client.completions.create(
            model=MODEL,
            prompt="hello",
            max_tokens=10,
            stream=True,
            stream_options={"include_usage": True},
        )
        emitted_at = []
        for chunk in stream:
            if chunk.choices and chunk.choices[0].text:
                emitted_at.append(time.monotonic())
            usage = chunk.usage
        gaps = [b - a for a, b in itertools.pairwise(emitted_at)]
        whole = client.completions.create(model=MODEL, prompt=["ab", "c"], max_tokens=3)
    assert usage is not None
    assert whole.usage is not None
    value = fresh.value
    assert value("requests_received_total") == 3
    assert value("prompt_tokens_received_total") == 8
    assert value("requests_total", outcome="length") == 3 == value("requests_total")
    assert value("prompt_tokens_total") == usage.prompt_tokens + whole.usage.prompt_tokens
    assert (
        value("generation_tokens_total")
        == usage.completion_tokens + whole.usage.completion_tokens
        == value("request_generation_tokens_sum")
        == 16
    )
    for family in ("time_to_first_token", "request_duration", "request_queue"):
        assert value(f"{family}_seconds_count") == 3, family
    itl_count = value("inter_token_latency_seconds_count")
    assert len(gaps) <= itl_count <= len(gaps) + 4
    ttft_s = emitted_at[0] - began_at
    assert value("time_to_first_token_seconds_sum") <= ttft_s + 1.0
    assert value("time_to_first_token_seconds_bucket", le="0.01") == 0  # a step is 20 ms
    assert slo(fresh, "ttft-loose") == (3, 0)
    assert slo(fresh, "ttft-tight") == (0, 3)
    assert slo(fresh, "e2e-tight") == (0, 3)
    assert slo(fresh, "tpot-loose") == (3, 0)
    assert slo(fresh, "itl-loose") == (itl_count, 0)
    at_once, late = slo(fresh, "itl-tight")
    assert at_once + late == itl_count
    assert late > at_once  # two tokens come at once only to a server that was held up
    assert value("goodput_requests_total", outcome="bad") == 3


def test_moments_add_up(fresh: EngineServer) -> None:
    httpx.post(fresh.api + "/v1/completions", json={"prompt": "abcd", "max_tokens": 6})

    def moment(term: str, step_class: str) -> float:
        return fresh.value("step_moments_total", **{"class": step_class, "term": term})

    assert moment("n", "prefill_only") == 1
    assert moment("p", "prefill_only") == 4
    assert moment("x", "prefill_only") == 16
    assert moment("n", "decode_only") == 5 == moment("d", "decode_only")
    assert moment("k", "decode_only") == 5 + 6 + 7 + 8 + 9
    assert moment("kk", "decode_only") == 25 + 36 + 49 + 64 + 81
    busy = fresh.value("busy_seconds_total")
    steps = sum(moment("t", each) for each in names.STEP_CLASSES)
    assert busy == pytest.approx(steps) == pytest.approx(fresh.value("step_duration_seconds_sum"))
    assert 0.12 <= busy < 1.0
    assert fresh.value("step_duration_seconds_count") == 6


@contextlib.contextmanager
def full_queue(server: EngineServer) -> Iterator[None]:
    """One request runs, the cap lets no other in, and two wait."""
    body = {"revision": 2, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 1, "slos": SLOS}
    assert httpx.put(server.admin + "/admin/tunables", json=body).status_code == 200
    url = server.api + "/v1/completions"
    endless = {"max_tokens": 5000, "stream": True}
    with httpx.stream("POST", url, json={"prompt": "run", **endless}, timeout=60) as running:
        lines = running.iter_lines()
        next(lines)
        waiting = threading.Thread(
            target=httpx.post,
            args=(url,),
            kwargs={"json": {"prompt": ["a", "b"], "max_tokens": 1}, "timeout": 60},
        )
        waiting.start()
        eventually(lambda: server.value("requests_waiting") == 2)
        yield
    waiting.join(60)


def test_refusals_are_offered_load_and_bad_samples(fresh: EngineServer) -> None:
    with full_queue(fresh):
        good, bad = slo(fresh, "ttft-loose")
        body = {"prompt": "refuse", "max_tokens": 1}
        refused = httpx.post(fresh.api + "/v1/completions", json=body)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["code"] == "queued_requests"
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert fresh.value("requests_received_total") == 4
        assert fresh.value("prompt_tokens_received_total") == 3 + 2 + 2  # the mean so far
        assert fresh.value("rejected_total", reason="queued_requests") == 1
        assert slo(fresh, "ttft-loose") == (good, bad + 1)
        assert fresh.value("goodput_requests_total", outcome="bad") == 1
        assert slo(fresh, "ttft-tight") == (0, 4)  # late already while they wait
    eventually(lambda: fresh.value("requests_total") == 3)
    assert fresh.value("requests_total", outcome="length") == 2


def test_what_can_never_wait_is_refused_for_good(fresh: EngineServer) -> None:
    before = fresh.value("rejected_total", reason="never_fits")
    answer = httpx.post(fresh.api + "/v1/completions", json={"prompt": ["a", "b", "c"]})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "never_fits"
    assert fresh.value("rejected_total", reason="never_fits") == before + 3


@pytest.mark.behaviour(
    "More choices than may ever wait are refused at once, with the numbers",
    report="text-embeddings-inference #662: a list payload slipped past the concurrency limit",
)
def test_choices_count_like_prompts(fresh: EngineServer) -> None:
    url = fresh.api + "/v1/completions"
    answer = httpx.post(url, json={"prompt": "a", "n": 3, "max_tokens": 1}, timeout=30)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "never_fits"
    assert "3 requests" in error["message"]
    assert "limit is 2" in error["message"]
    assert fresh.value("requests_received_total") == 0
    allowed = httpx.post(url, json={"prompt": "a", "n": 2, "max_tokens": 1}, timeout=30)
    assert allowed.status_code == 200
    assert fresh.value("requests_received_total") == 2
    assert fresh.value("prompt_tokens_received_total") == 1
    batch = httpx.post(
        url, json={"prompt": "a", "n": 2, "max_tokens": 1, "service_tier": "flex"}, timeout=30
    )
    assert batch.status_code == 400
    assert "limit is 1 for the batch tier (80% of it)" in batch.json()["error"]["message"]


def test_what_is_invalid_is_no_load(fresh: EngineServer) -> None:
    assert httpx.post(fresh.api + "/v1/completions", json={"prompt": ""}).status_code == 400
    assert fresh.value("requests_received_total") == 0
    assert fresh.value("goodput_requests_total") == 0


@pytest.mark.parametrize(("asked", "tier"), [("auto", "interactive"), ("flex", "batch")])
def test_gauges_while_requests_run(fresh: EngineServer, asked: str, tier: str) -> None:
    slos = [*SLOS, {"name": "ttft-tight", "metric": "TTFT", "targetMs": 1, "tier": "batch"}]
    knobs = {"revision": 2, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 8, "slos": slos}
    assert httpx.put(fresh.admin + "/admin/tunables", json=knobs).status_code == 200
    body = {"prompt": "x" * 40, "max_tokens": 4000, "stream": True, "service_tier": asked}
    with httpx.stream("POST", fresh.api + "/v1/completions", json=body, timeout=30) as answer:
        lines = answer.iter_lines()  # kept: its end would close the connection
        next(lines)
        other = "batch" if tier == "interactive" else "interactive"
        for family in (
            "requests_running",
            "requests_received_total",
            "slo_samples_total",
            "time_to_first_token_seconds_count",
        ):
            assert fresh.value(family, tier=tier) >= 1, family
            assert fresh.value(family, tier=other) == 0, family
        assert fresh.value("requests_running") == 1
        assert fresh.value("kv_cache_blocks", state="held") >= 3
        assert 0 < fresh.value("kv_cache_usage_ratio") < 1
        assert slo(fresh, "ttft-tight") == (0, 1)


@pytest.mark.behaviour(
    "A request refused while draining or loading is counted as that, and is neither offered load "
    "nor a missed objective: another replica serves it",
    report="vllm #24885; gateway-api-inference-extension #549: what a drain did to requests was "
    "not to be seen",
)
def test_what_a_drain_refuses_is_load_of_another_replica() -> None:
    with engine_server("--drain-grace-seconds=0", law=LAW) as draining:
        body = {"revision": 1, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 8, "slos": SLOS}
        assert httpx.put(draining.admin + "/admin/tunables", json=body).status_code == 200
        assert httpx.post(draining.admin + "/admin/drain").status_code == 200
        refused = httpx.post(draining.api + "/v1/completions", json={"prompt": "x"}, timeout=30)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert draining.value("rejected_total", reason="draining", tier="unread") == 1
        assert draining.value("rejected_total") == 1
        for family in ("requests_received_total", "requests_total", "goodput_requests_total"):
            assert draining.value(family) == 0, family
        assert draining.value("slo_samples_total") == 0


def test_ttft_starts_with_the_first_byte(fresh: EngineServer) -> None:
    """A body that dawdles on the way counts: the caller has been waiting since its start."""

    def dawdling() -> Iterator[bytes]:
        yield b'{"prompt": "x",'
        time.sleep(0.3)
        yield b' "max_tokens": 1}'

    assert httpx.post(fresh.api + "/v1/completions", content=dawdling()).status_code == 200
    assert fresh.value("time_to_first_token_seconds_sum") >= 0.3
