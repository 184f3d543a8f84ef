"""Nobody can tell from an answer, or from how long it took, what another's prompts began with."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server

# A hit saves 384 of 405 ms: far more than a busy machine adds.
LAW = "base_ms=5,per_token_ms=4"
LENGTH = 100
CACHED = 96
ROUNDS = 5


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("victim-key\nspy-key\n")
    with engine_server(f"--api-key-file={keys}", "--trust-tenant-header=on", law=LAW) as running:
        yield running


@pytest.fixture(scope="module")
def http(engine: EngineServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=engine.api, timeout=60) as client:
        yield client


@dataclass(frozen=True)
class Caller:
    """Whose requests they are."""

    tenant: str = "victim"
    key: str = "victim-key"
    salt: str = "victim-salt"


@dataclass
class Seen:
    """What a caller can see of its requests of one kind."""

    seconds: list[float] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)


def text(*parts: object) -> str:
    """A prompt that begins like no other."""
    return (hashlib.sha256(repr(parts).encode()).hexdigest() * 2)[:LENGTH]


def ask(http: httpx.Client, caller: Caller, prompt: str, seen: Seen) -> None:
    headers = {"authorization": f"Bearer {caller.key}", "x-paceline-tenant": caller.tenant}
    body = {"prompt": prompt, "max_tokens": 1, "cache_salt": caller.salt}
    began_at = time.monotonic()
    answer = http.post("/v1/completions", json=body, headers=headers)
    seen.seconds.append(time.monotonic() - began_at)
    assert answer.status_code == 200, answer.text
    seen.cached.append(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "spy",
    [
        Caller(tenant="spy"),
        Caller(key="spy-key"),
        Caller(salt="spy-salt"),
    ],
    ids=["another tenant", "another key", "another salt"],
)
@pytest.mark.behaviour(
    "neither answers nor their times tell one tenant what another's prompts begin with",
    report="prefix caches shared by all callers: a guessed prefix answers sooner where it is right",
)
def test_a_spy_sees_no_difference(engine: EngineServer, http: httpx.Client, spy: Caller) -> None:
    seen: dict[str, Seen] = defaultdict(Seen)
    victim = Caller()
    before = engine.value("step_moments_total", term="p")
    for number in range(ROUNDS):
        secret, guess = text(spy, number, "secret"), text(spy, number, "guess")
        ask(http, victim, secret, seen["first"])
        ask(http, spy, guess, seen["wrong guess"])
        ask(http, spy, secret, seen["right guess"])
        ask(http, victim, secret, seen["again"])
    assert seen["again"].cached == [CACHED] * ROUNDS
    assert seen["right guess"].cached == seen["wrong guess"].cached == [0] * ROUNDS
    computed = engine.value("step_moments_total", term="p") - before
    assert computed == ROUNDS * (3 * LENGTH + LENGTH - CACHED), "the engine computed all guesses"
    medians = {kind: statistics.median(each.seconds) for kind, each in seen.items()}
    saved = medians["wrong guess"] - medians["again"]
    assert saved > 0.1, medians
    assert abs(medians["right guess"] - medians["wrong guess"]) < saved / 2, medians
