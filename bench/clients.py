"""Groups of clients that call a server for a while, timed at the client."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from bench.contender import ContenderError

TIMEOUT_S = 300
LETTERS = range(97, 123)  # token ids that every vocabulary here has


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Clients that do the same; each sends its next request when the last has ended.

    Attributes:
        name: What the figures call it.
        clients: That send side by side.
        requests: Each sends.
        input_tokens: Of each prompt.
        output_tokens: Asked for, and given.
        shared_tokens: Leading tokens that all its prompts share.
        tier: `service_tier`; None leaves it out.
        tenant: `X-Paceline-Tenant`; None leaves it out.
        start_s: After the beginning of the load.
        pause_s: Between two requests of a client.
    """

    name: str
    clients: int
    requests: int
    input_tokens: int
    output_tokens: int
    shared_tokens: int = 0
    tier: str | None = None
    tenant: str | None = None
    start_s: float = 0.0
    pause_s: float = 0.0

    def scaled(self, scale: float) -> Group:
        """With so many times the requests, at least one each."""
        return replace(self, requests=max(1, round(self.requests * scale)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the clients of one group saw.

    Attributes:
        wall_s: First request sent to last answer read.
        output_tokens: Of all answers.
        ttft_ms: Of each answered request.
        gap_ms: Between emissions of one request, pooled.
        refused: Requests answered with 429.
        emitted_s: When each emission came, after the beginning of the load.
    """

    wall_s: float
    output_tokens: int
    ttft_ms: tuple[float, ...]
    gap_ms: tuple[float, ...]
    refused: int
    emitted_s: tuple[float, ...] = ()

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second over the group's time."""
        return self.output_tokens / self.wall_s


@dataclass(slots=True)
class _Tally:
    began_s: float = field(default_factory=time.perf_counter)
    ended_s: float = 0.0
    output_tokens: int = 0
    ttft_ms: list[float] = field(default_factory=list)
    gap_ms: list[float] = field(default_factory=list)
    refused: int = 0
    emitted_s: list[float] = field(default_factory=list)

    def outcome(self, load_began_s: float) -> Outcome:
        return Outcome(
            wall_s=self.ended_s - self.began_s,
            output_tokens=self.output_tokens,
            ttft_ms=tuple(self.ttft_ms),
            gap_ms=tuple(self.gap_ms),
            refused=self.refused,
            emitted_s=tuple(at - load_began_s for at in self.emitted_s),
        )


async def run_groups(url: str, model: str, groups: Sequence[Group], seed: int) -> list[Outcome]:
    """Runs all groups side by side to their ends.

    Args:
        url: Base of the API.
        model: Served name.
        groups: See `Group`.
        seed: Of the prompts.

    Raises:
        ContenderError: An answer is neither what was asked for nor a 429.
    """
    limits = httpx.Limits(max_connections=sum(group.clients for group in groups))
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as client:
        return await asyncio.gather(
            *(
                _run_group(client, model, group, random.Random(f"{seed}:{place}"))
                for place, group in enumerate(groups)
            )
        )


async def _run_group(
    client: httpx.AsyncClient, model: str, group: Group, draw: random.Random
) -> Outcome:
    load_began_s = time.perf_counter()
    await asyncio.sleep(group.start_s)
    shared = draw.choices(LETTERS, k=group.shared_tokens)
    prompts = [
        [shared + draw.choices(LETTERS, k=group.input_tokens - group.shared_tokens)]
        for _ in range(group.clients * group.requests)
    ]
    tally = _Tally()

    async def one_client(place: int) -> None:
        for prompt in prompts[place :: group.clients]:
            await _request(client, _body(model, group, prompt), _headers(group), tally)
            await asyncio.sleep(group.pause_s)

    await asyncio.gather(*(one_client(place) for place in range(group.clients)))
    return tally.outcome(load_began_s)


def _headers(group: Group) -> dict[str, str]:
    return {} if group.tenant is None else {"x-paceline-tenant": group.tenant}


def _body(model: str, group: Group, prompt: list[list[int]]) -> dict[str, Any]:
    tier = {} if group.tier is None else {"service_tier": group.tier}
    return tier | {
        "model": model,
        "prompt": prompt,
        "max_tokens": group.output_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _request(
    client: httpx.AsyncClient, body: dict[str, Any], headers: dict[str, str], tally: _Tally
) -> None:
    sent_s = time.perf_counter()
    last_s = None
    async with client.stream("POST", "/v1/completions", json=body, headers=headers) as response:
        if response.status_code == 429:
            tally.refused += 1
        elif response.status_code != 200:
            text = (await response.aread()).decode(errors="replace")
            raise ContenderError(f"HTTP {response.status_code}: {text[:300]}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise ContenderError(f"the stream broke off: {event['error']}")
            if event["choices"] and (last_s is None or event["choices"][0].get("text")):
                last_s = _emitted(tally, sent_s, last_s)
            if event.get("usage"):
                tally.output_tokens += event["usage"]["completion_tokens"]
    tally.ended_s = time.perf_counter()


def _emitted(tally: _Tally, sent_s: float, last_s: float | None) -> float:
    """Counts an emission; returns its time."""
    now_s = time.perf_counter()
    tally.emitted_s.append(now_s)
    if last_s is None:
        tally.ttft_ms.append((now_s - sent_s) * 1e3)
    else:
        tally.gap_ms.append((now_s - last_s) * 1e3)
    return now_s
