"""Sends one request on a connection of its own and times its answer."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

import aiohttp

from e2e.load.answer import AnswerError, StreamedAnswer, error_line, fault, read_whole
from e2e.load.plan import PlannedRequest
from e2e.load.prompt import PATHS, Route, Vocabulary, request_body
from e2e.load.record import Outcome, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go and how they are written.

    Attributes:
        url: Base, without `/v1`.
        model: Served name.
        route: Which API.
        vocabulary: How text is counted in tokens.
        seed: Of texts and sampling.
        ignore_eos: Whether answers run to their token limit.
        timeout_s: Longest a request may take before it is lost.
        api_key: Bearer token, None without.
    """

    url: str
    model: str
    route: Route
    vocabulary: Vocabulary
    seed: int
    ignore_eos: bool
    timeout_s: float
    api_key: str | None = None


@dataclass(slots=True)
class _Trace:
    """What is known of a request while it runs; times are `time.perf_counter`."""

    sent: float
    first: float | None = None
    last: float = 0.0
    gaps_ms: list[float] = field(default_factory=list)
    status: int | None = None
    answer: StreamedAnswer = field(default_factory=StreamedAnswer)

    def saw(self, texts: int, now: float) -> None:
        """Texts that came in one read are one emission: gaps of 0 ms would flatter the ITL."""
        if not texts:
            return
        if self.first is None:
            self.first = now
        else:
            self.gaps_ms.append((now - self.last) * 1e3)
        self.last = now


class _NotFullError(Exception):
    """Ends a request with an outcome other than a full reply."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


def open_session() -> aiohttp.ClientSession:
    """A session that never reuses a connection and has no limit on how many are open.

    A name is looked up every five minutes: the address of a Service stays, and a lookup
    that fails would read as a lost request.
    """
    connector = aiohttp.TCPConnector(limit=0, force_close=True, ttl_dns_cache=300)
    return aiohttp.ClientSession(
        connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    )


async def send(
    session: aiohttp.ClientSession, target: Target, request: PlannedRequest, scheduled_s: float
) -> Record:
    """Sends one request to its end; cancelling it gives a record as well.

    Args:
        session: From `open_session`.
        target: Where to.
        request: What.
        scheduled_s: Unix time at which it was due, for the record.
    """
    payload = _payload(target, request)
    sent_s = time.time()
    trace = _Trace(sent=time.perf_counter())
    outcome, error = Outcome.OK, None
    try:
        async with asyncio.timeout(target.timeout_s):
            await _exchange(session, target, request, payload, trace)
    except _NotFullError as problem:
        outcome, error = problem.outcome, str(problem)
    except AnswerError as problem:
        outcome, error = Outcome.LOST, str(problem)
    except TimeoutError:
        outcome, error = Outcome.LOST, f"no end within {target.timeout_s:g} s"
    except (aiohttp.ClientError, OSError) as problem:
        words = " ".join(str(problem).split())[:200]
        outcome, error = Outcome.LOST, f"{type(problem).__name__}: {words}"
    except asyncio.CancelledError:
        outcome, error = Outcome.CANCELLED, "the load generator was stopped"
    first = trace.first
    return Record(
        id=request.number,
        phase=request.phase,
        kind=request.kind,
        streamed=request.streamed,
        scheduled_s=scheduled_s,
        sent_s=sent_s,
        ended_s=sent_s + time.perf_counter() - trace.sent,
        ttft_ms=None if first is None else (first - trace.sent) * 1e3,
        gaps_ms=tuple(trace.gaps_ms),
        prompt_tokens=trace.answer.usage.get("prompt_tokens", request.prompt_tokens),
        tokens=trace.answer.usage.get("completion_tokens", trace.answer.texts),
        status=trace.status,
        outcome=outcome,
        error=error,
    )


def _payload(target: Target, request: PlannedRequest) -> bytes:
    body = request_body(
        request,
        model=target.model,
        route=target.route,
        vocabulary=target.vocabulary,
        seed=target.seed,
        ignore_eos=target.ignore_eos,
    )
    return json.dumps(body).encode()


async def _exchange(
    session: aiohttp.ClientSession,
    target: Target,
    request: PlannedRequest,
    payload: bytes,
    trace: _Trace,
) -> None:
    headers = {"Content-Type": "application/json"}
    if target.api_key is not None:
        headers["Authorization"] = f"Bearer {target.api_key}"
    url = target.url.rstrip("/") + PATHS[target.route]
    no_limit = aiohttp.ClientTimeout(total=None)  # `send` holds the only limit
    async with session.post(url, data=payload, headers=headers, timeout=no_limit) as response:
        trace.status = response.status
        if response.status != 200:
            raise await _refusal(response)
        if request.streamed:
            await _read_stream(response, trace)
        else:
            trace.answer = read_whole(await response.read())
    reason = fault(trace.answer, request.max_tokens, ignore_eos=target.ignore_eos)
    if reason is not None:
        raise _NotFullError(Outcome.LOST, reason)


async def _read_stream(response: aiohttp.ClientResponse, trace: _Trace) -> None:
    async for data in response.content.iter_any():
        trace.saw(trace.answer.feed(data), time.perf_counter())


async def _refusal(response: aiohttp.ClientResponse) -> _NotFullError:
    deliberate = response.status == 429 and "Retry-After" in response.headers
    reason = f"HTTP {response.status}: {error_line(await response.read())}"
    return _NotFullError(Outcome.REFUSED if deliberate else Outcome.LOST, reason)
