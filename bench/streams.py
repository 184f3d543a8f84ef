"""Concurrent streamed completions, timed at the client."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import httpx

from bench.contender import Contender, ContenderError


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """All requests of one measurement, sent at once.

    Attributes:
        wall_s: First byte sent to last byte received.
        output_tokens: Of all requests.
        ttft_ms: Of each request.
        gap_ms: Between the emissions of each request, pooled.
    """

    wall_s: float
    output_tokens: int
    ttft_ms: tuple[float, ...]
    gap_ms: tuple[float, ...]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second over the whole burst."""
        return self.output_tokens / self.wall_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What each request of a burst has; either server must report just that.

    Attributes:
        input_tokens: Of the prompt.
        output_tokens: Asked for.
    """

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class _Stream:
    output_tokens: int
    prompt_tokens: int
    arrivals: list[float]


async def run_burst(
    url: str, contender: Contender, model: str, prompts: list[str], load: Load
) -> Burst:
    """Sends every prompt at once and reads the streams to their end.

    Raises:
        ContenderError: An answer is an error or has another number of tokens.
    """
    limits = httpx.Limits(max_connections=len(prompts))
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        bodies = [_body(contender, model, prompt, load.output_tokens) for prompt in prompts]
        start = time.perf_counter()
        streams = await asyncio.gather(*(_read(client, body) for body in bodies))
        wall = time.perf_counter() - start
    for stream in streams:
        counted = Load(input_tokens=stream.prompt_tokens, output_tokens=stream.output_tokens)
        if counted != load:
            raise ContenderError(
                f"{contender.name} counted {counted.input_tokens} tokens in and "
                f"{counted.output_tokens} out instead of {load.input_tokens} and "
                f"{load.output_tokens}"
            )
    return Burst(
        wall_s=wall,
        output_tokens=sum(stream.output_tokens for stream in streams),
        ttft_ms=tuple((stream.arrivals[0] - start) * 1e3 for stream in streams),
        gap_ms=tuple(
            (later - earlier) * 1e3
            for stream in streams
            for earlier, later in zip(stream.arrivals, stream.arrivals[1:], strict=False)
        ),
    )


def _body(contender: Contender, model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    shared = {"model": model, "prompt": prompt, "max_tokens": max_tokens}
    return shared | {"temperature": 0.0, "stream": True} | contender.body


async def _read(client: httpx.AsyncClient, body: dict[str, Any]) -> _Stream:
    arrivals: list[float] = []
    usage: dict[str, int] = {}
    async with client.stream("POST", "/v1/completions", json=body) as response:
        if response.status_code != 200:
            text = (await response.aread()).decode(errors="replace")
            raise ContenderError(f"HTTP {response.status_code}: {text[:300]}")
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise ContenderError(f"the stream broke off: {event['error']}")
            usage = event.get("usage") or usage
            if event["choices"] and event["choices"][0].get("text"):
                arrivals.append(time.perf_counter())
    if not arrivals or not usage:
        raise ContenderError("a stream ended without text or usage")
    return _Stream(usage["completion_tokens"], usage["prompt_tokens"], arrivals)
