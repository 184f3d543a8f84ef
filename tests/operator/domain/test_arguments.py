from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.arguments import UnsupportedEngineError, arguments, check
from paceline_operator.domain.errors import SpecError, UnsupportedModelError
from paceline_operator.domain.model_source import Weights
from tests.support.fleet import spec

CPU: dict[str, Any] = {"device": {"type": "CPU"}}
MODEL = {"uri": "pvc://c/m"}


def rendered(**fields: Any) -> list[str]:
    return arguments("chat", spec(**fields), Weights("/m"), thread_count=2)


def test_live_values_are_never_arguments() -> None:
    engine = {**CPU, "batchTokens": {"max": 1024, "initial": 128}}
    args = rendered(engine=engine, model=MODEL)
    assert "--max-num-batched-tokens=1024" in args
    assert not any("initial" in arg or arg.endswith("=128") for arg in args)


def test_the_token_is_a_file_and_never_an_argument() -> None:
    assert "--admin-token-file=/etc/paceline/admin/token" in rendered()


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({}, "--served-name=chat"),
        ({"model": {"servedName": "smol"}}, "--served-name=smol"),
        ({"engine": {"device": {"type": "Simulated", "profile": "p"}}}, "--profile=p"),
        ({"engine": {"device": {"type": "Simulated", "loadSeconds": 10}}}, "--load-seconds=10"),
        ({"engine": {**CPU, "kvCache": {"memory": "2Gi"}}}, "--kv-cache-memory=2147483648"),
        ({"engine": {**CPU, "kvCache": {"blockSize": 32}}}, "--block-size=32"),
        ({"engine": {**CPU, "kvCache": {"prefixCaching": True}}}, "--prefix-caching=on"),
        ({"engine": {**CPU, "kvCache": {"prefixCaching": False}}}, "--prefix-caching=off"),
        ({"rollout": {"drainSeconds": 60}}, "--drain-seconds=60"),
        ({"engine": {**CPU, "maxNumSeqs": 8}}, "--max-num-seqs=8"),
    ],
)
def test_argument(fields: dict[str, Any], argument: str) -> None:
    assert argument in rendered(**fields)


def test_what_is_absent_is_left_to_the_engine() -> None:
    left = ("--block-size", "--kv-cache-memory", "--prefix-caching")
    assert not any(arg.startswith(left) for arg in rendered(engine=CPU, model=MODEL))


def test_who_would_miss_the_objective_is_turned_away_whatever_the_objectives() -> None:
    """Objectives are live: one that is added must not restart pods."""
    slos = [{"name": "first", "metric": "TTFT", "targetMs": 500}]
    assert rendered() == rendered(slos=slos)
    assert "--max-queue-seconds=slo" in rendered()


def test_a_fleet_of_an_earlier_generation_is_given_what_it_was_started_with() -> None:
    before = arguments("chat", spec(), Weights("/m"), thread_count=2, defaults=0)
    assert before == [each for each in rendered() if each != "--max-queue-seconds=slo"]


@pytest.mark.parametrize("given", ["off", "30"])
def test_a_users_own_limit_on_waiting_comes_after_ours(given: str) -> None:
    args = rendered(engine={**CPU, "args": [f"--max-queue-seconds={given}"]}, model=MODEL)
    ours, users = (args.index(f"--max-queue-seconds={value}") for value in ("slo", given))
    assert ours < users


def test_users_arguments_come_last_and_so_win() -> None:
    assert rendered(engine={**CPU, "args": ["--log-level=debug"]})[-1] == "--log-level=debug"


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"engine": {"runtime": "VLLM", "image": "x"}}, UnsupportedEngineError, "VLLM"),
        ({"engine": CPU}, UnsupportedModelError, "model.uri is required"),
        (
            {"engine": {**CPU, "tensorParallelSize": 2}, "model": MODEL},
            UnsupportedEngineError,
            "tensorParallelSize",
        ),
        (
            {"engine": {**CPU, "speculative": {"method": "ngram", "numTokens": 3}}, "model": MODEL},
            UnsupportedEngineError,
            "speculative",
        ),
        (
            {"engine": {**CPU, "quantization": "int8"}, "model": MODEL},
            UnsupportedEngineError,
            "quantization",
        ),
    ],
)
def test_what_would_be_dropped_is_refused(
    fields: dict[str, Any], error: type[SpecError], said: str
) -> None:
    with pytest.raises(error, match=said):
        check(spec(**fields))
