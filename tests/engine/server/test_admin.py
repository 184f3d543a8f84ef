"""The admin port of a started server: who may, live knobs, revisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server

PATH = "/admin/tunables"
SLO = {"name": "first", "tier": "interactive", "metric": "TTFT", "percentile": 95, "targetMs": 500}


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("admin") / "token"
    path.write_text("secret\n")
    return path


@pytest.fixture(scope="module")
def engine(token_file: Path) -> Iterator[EngineServer]:
    flags = ("--max-num-batched-tokens=1024", "--max-num-seqs=32", "--initial-batched-tokens=256")
    with engine_server(f"--admin-token-file={token_file}", *flags) as running:
        yield running


@pytest.fixture(scope="module")
def admin(engine: EngineServer) -> Iterator[httpx.Client]:
    headers = {"authorization": "Bearer secret"}
    with httpx.Client(base_url=engine.admin, headers=headers, timeout=10) as client:
        yield client


def put(admin: httpx.Client, revision: int, **changes: Any) -> httpx.Response:
    body = {"revision": revision, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 16}
    return admin.put(PATH, json={**body, **changes})


def test_start_values_and_bounds(admin: httpx.Client) -> None:
    assert admin.get(PATH).json() == {
        "revision": 0,
        "requested": {"maxNumBatchedTokens": 256, "maxNumRunningSeqs": 32},
        "effective": {"maxNumBatchedTokens": 256, "maxNumRunningSeqs": 32},
        "floor": {"maxNumBatchedTokens": 48, "maxNumRunningSeqs": 1},
        "ceiling": {"maxNumBatchedTokens": 1024, "maxNumRunningSeqs": 32},
        "step": {"maxNumBatchedTokens": 16, "maxNumRunningSeqs": 1},
        "slos": [],
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic secret", "secret"])
def test_nobody_without_the_token(engine: EngineServer, method: str, header: str) -> None:
    path = PATH if method in ("GET", "PUT") else "/admin/drain"
    answer = httpx.request(method, engine.admin + path, headers={"authorization": header})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"


def test_two_tokens_are_none(engine: EngineServer) -> None:
    headers = [("authorization", "Bearer secret"), ("authorization", "Bearer wrong")]
    answer = httpx.get(engine.admin + PATH, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "authorization"


def test_a_new_token_file_takes_effect(token_file: Path, admin: httpx.Client) -> None:
    token_file.write_text("rotated\n")
    try:
        assert admin.get(PATH).status_code == 401
        headers = {"authorization": "Bearer rotated"}
        assert admin.get(PATH, headers=headers).status_code == 200
        token_file.unlink()
        assert admin.get(PATH, headers=headers).status_code == 401
    finally:
        token_file.write_text("secret\n")
    assert admin.get(PATH).status_code == 200


def test_put_applies_live(engine: EngineServer, admin: httpx.Client) -> None:
    revision = admin.get(PATH).json()["revision"] + 1
    answer = put(admin, revision, slos=[SLO]).json()
    assert answer["revision"] == revision
    assert answer["effective"] == {"maxNumBatchedTokens": 512, "maxNumRunningSeqs": 16}
    assert answer["floor"]["maxNumBatchedTokens"] == 32
    assert answer["slos"] == [SLO]
    assert admin.get(PATH).json() == answer
    assert engine.value("tunables_revision") == revision
    assert engine.value("max_num_batched_tokens") == 512
    assert engine.value("max_num_running_seqs") == 16
    assert engine.value("slo_samples_total", slo="first", target_ms="500") == 0


@pytest.mark.parametrize(
    ("budget", "running", "effective"),
    [
        (100_000, 1000, (1024, 32)),
        (1, 16, (32, 16)),
        (500, 4, (496, 4)),
        (16, 1, (16, 1)),
    ],
)
def test_values_are_brought_inside_the_bounds(
    admin: httpx.Client, budget: int, running: int, effective: tuple[int, int]
) -> None:
    revision = admin.get(PATH).json()["revision"] + 1
    answer = put(admin, revision, maxNumBatchedTokens=budget, maxNumRunningSeqs=running).json()
    assert tuple(answer["effective"].values()) == effective
    assert tuple(answer["requested"].values()) == (budget, running)


def test_a_step_time_target_is_echoed_until_it_is_left_out(admin: httpx.Client) -> None:
    revision = admin.get(PATH).json()["revision"] + 1
    answer = put(admin, revision, stepTimeTargetMs=12.5).json()
    knobs = {"maxNumBatchedTokens": 512, "maxNumRunningSeqs": 16}
    assert answer["requested"] == answer["effective"] == {**knobs, "stepTimeTargetMs": 12.5}
    assert answer["floor"].keys() == answer["step"].keys() == knobs.keys()
    assert put(admin, revision, stepTimeTargetMs=13.0).status_code == 409
    assert admin.get(PATH).json() == answer
    answer = put(admin, revision + 1).json()
    assert answer["requested"] == answer["effective"] == knobs


@pytest.mark.parametrize("number", ["1e400", "NaN", "Infinity"])
def test_a_target_that_is_no_number_is_refused(admin: httpx.Client, number: str) -> None:
    body = f'{{"revision": {2**63 - 1}, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 16, '
    answer = admin.put(PATH, content=f'{body}"stepTimeTargetMs": {number}}}')
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in ("stepTimeTargetMs", None)


def test_revisions(admin: httpx.Client) -> None:
    revision = admin.get(PATH).json()["revision"] + 10
    first = put(admin, revision)
    assert first.status_code == 200
    assert put(admin, revision).json() == first.json()
    for stale, changes, code in (
        (revision - 1, {}, "stale_revision"),
        (revision, {"maxNumBatchedTokens": 256}, "revision_conflict"),
        (revision, {"slos": [SLO]}, "revision_conflict"),
    ):
        answer = put(admin, stale, **changes)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, code)
    assert admin.get(PATH).json() == first.json()
    assert put(admin, 2**63 - 1).status_code == 200


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"stepTimeTargetMs": 0}, "stepTimeTargetMs", "invalid_value"),
        ({"stepTimeTargetMs": -1}, "stepTimeTargetMs", "invalid_value"),
        ({"stepTimeTargetMs": "fast"}, "stepTimeTargetMs", "invalid_value"),
        ({"maxNumBatchedTokens": 0}, "maxNumBatchedTokens", "invalid_value"),
        ({"maxNumRunningSeqs": "many"}, "maxNumRunningSeqs", "invalid_value"),
        ({"revision": -1}, "revision", "invalid_value"),
        ({"revision": 2**63}, "revision", "invalid_value"),
        ({"slos": [{**SLO, "percentile": 100}]}, "slos", "invalid_value"),
        ({"slos": [{**SLO, "metric": "SPEED"}]}, "slos", "invalid_value"),
        ({"slos": [{**SLO, "targetMs": 0}]}, "slos", "invalid_value"),
    ],
)
def test_bad_puts_are_named(
    admin: httpx.Client, changes: dict[str, Any], param: str, code: str
) -> None:
    answer = put(admin, **{"revision": 2**63 - 1, **changes})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, code)


def test_without_a_token_file_the_port_is_for_loopback_only() -> None:
    with engine_server("--host=0.0.0.0") as running:
        assert running.admin.startswith("http://127.0.0.1:")
        assert running.api.startswith("http://0.0.0.0:")
        assert httpx.get(running.admin + PATH).status_code == 200


def test_starts_with_the_values_of_the_config_map(tmp_path: Path) -> None:
    agreed = {"revision": 41, "maxNumBatchedTokens": 320, "maxNumRunningSeqs": 8, "slos": [SLO]}
    (tmp_path / "tunables.json").write_text(json.dumps(agreed))
    flags = (f"--tunables-dir={tmp_path}", "--max-num-batched-tokens=512")
    with engine_server(*flags, "--initial-batched-tokens=64") as running:
        answer = httpx.get(running.admin + PATH).json()
        assert answer["revision"] == 41
        assert answer["effective"] == {"maxNumBatchedTokens": 320, "maxNumRunningSeqs": 8}
        assert answer["slos"] == [SLO]
        assert running.value("tunables_revision") == 41
        with httpx.Client(base_url=running.admin) as admin:
            assert admin.put(PATH, json=agreed).status_code == 200
            assert put(admin, 40).status_code == 409


def test_a_broken_config_map_does_not_prevent_the_start(tmp_path: Path) -> None:
    (tmp_path / "tunables.json").write_text('{"revision": "x"}')
    with engine_server(f"--tunables-dir={tmp_path}") as running:
        assert httpx.get(running.admin + PATH).json()["revision"] == 0
    assert any("WARNING" in line and "tunables.json" in line for line in running.log)


def test_while_loading_a_put_is_put_off() -> None:
    with engine_server("--load-seconds=30", ready=False) as running:
        with httpx.Client(base_url=running.admin) as admin:
            answer = put(admin, 1)
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert httpx.get(running.health + "/healthz").status_code == 200
        assert httpx.get(running.health + "/readyz").status_code == 503
        refused = httpx.post(running.api + "/v1/completions", json={"prompt": "x"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "not_ready"
        assert running.value("rejected_total", reason="not_ready") == 1
