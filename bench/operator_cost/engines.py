"""Pretended engines: one process that listens on an address of the loopback network for each.

    python -m bench.operator_cost.engines --count 2000 --network 127.200

They answer `/metrics` on the health port, and tunables and drains on the admin port, as engines
do. `POST /late?service=NAME&on=1` on the health port gives all engines of a service too much load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any, cast

from typing_extensions import override

from bench.operator_cost import engine_text
from paceline_operator.domain.contract import ADMIN_PORT, HEALTH_PORT
from paceline_operator.metrics import names

RENDER_EVERY_S = 1.0
PER_BLOCK = 250
PER_SERVICE = 8
"""Addresses of a service: what its pods have at first, and as many for those that come."""
BUDGET, SEQS = "maxNumBatchedTokens", "maxNumRunningSeqs"
STEP_TIME = "stepTimeTargetMs"


def address(network: str, number: int) -> str:
    """Address of one engine: 127.x, then its number."""
    return f"{network}.{number // PER_BLOCK}.{1 + number % PER_BLOCK}"


def service_name(number: int) -> str:
    """Name of one service."""
    return f"fleet-{number:03d}"


@dataclass(slots=True)
class Load:
    """What a service is given."""

    late_since_s: float | None = None
    late_s: float = 0.0
    is_late: bool = False

    def set(self, *, on: bool, now_s: float) -> None:
        """Begin or end too much of it."""
        self.late_s = self.late(now_s)
        self.late_since_s, self.is_late = (now_s if on else None), on

    def late(self, now_s: float) -> float:
        """Seconds of too much load so far."""
        since_s = now_s if self.late_since_s is None else self.late_since_s
        return self.late_s + now_s - since_s


@dataclass(slots=True)
class Engine:
    """One engine: whose it is, and its live values."""

    service: str
    revision: int = 0
    values: dict[str, float] = field(default_factory=lambda: {BUDGET: 512, SEQS: 64})

    def report(self) -> dict[str, Any]:
        """The body of tunables."""
        return {
            "revision": self.revision, "requested": self.values, "effective": self.values,
            "floor": {BUDGET: 80}, "ceiling": {BUDGET: 8192, SEQS: 256}, "step": {BUDGET: 16},
        }  # fmt: skip


class Site:
    """All engines of the process."""

    def __init__(self) -> None:
        self.engines: dict[str, Engine] = {}
        self.loads: dict[str, Load] = {}
        self._started_s = time.time()
        self._texts: dict[str, tuple[float, str]] = {}

    def metrics(self, ip: str) -> bytes:
        """One engine's text; what all of a service share is rendered once a second."""
        engine = self.engines[ip]
        now_s = time.time()
        known = self._texts.get(engine.service)
        if known is None or now_s - known[0] > RENDER_EVERY_S:
            known = self._texts[engine.service] = (now_s, self._render(engine.service, now_s))
        own = (engine.values[BUDGET], engine.values[SEQS], engine.revision)
        families = (names.MAX_BATCHED_TOKENS, names.MAX_RUNNING_SEQS, names.TUNABLES_REVISION)
        lines = [
            f'{f.full_name}{{model_name="m"}} {v}.0' for f, v in zip(families, own, strict=True)
        ]
        return (known[1] + "\n".join([*lines, ""])).encode()

    def _render(self, service: str, now_s: float) -> str:
        load = self.loads.get(service, Load())
        late = load.is_late
        gauges = {
            names.REQUESTS_RUNNING: 8.0, names.REQUESTS_WAITING: 40.0 if late else 0.0,
            names.WAITING_TOKENS: 12000.0 if late else 0.0, names.KV_USAGE: 0.3,
        }  # fmt: skip
        served_s = now_s - self._started_s
        whole = engine_text.text(served_s, load.late(now_s), self._started_s, gauges)
        return whole.replace(engine_text.MODEL, service)

    def answer(self, ip: str, method: str, path: str, body: bytes) -> bytes:
        """Body for a request."""
        if path == "/metrics":
            return self.metrics(ip)
        if path.startswith("/late"):
            query = dict(pair.split("=") for pair in path.partition("?")[2].split("&"))
            self.loads.setdefault(query["service"], Load()).set(
                on=query["on"] == "1", now_s=time.time()
            )
            return b"{}"
        engine = self.engines[ip]
        if path == "/admin/tunables":
            if method == "PUT":
                asked = json.loads(body)
                engine.revision = asked["revision"]
                known = (BUDGET, SEQS, STEP_TIME)
                engine.values = {key: asked[key] for key in known if key in asked}
            return json.dumps(engine.report()).encode()
        return json.dumps(
            {"phase": "refusing" if method == "POST" else None, "empty": True}
        ).encode()


class Http(asyncio.Protocol):
    """As much of HTTP/1.1 as the operator's client needs."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._read = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ip = str(transport.get_extra_info("sockname")[0])

    @override
    def data_received(self, data: bytes) -> None:
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, rest = self._read.partition(b"\r\n\r\n")
            line, *headers = head.decode("latin-1").split("\r\n")
            lengths = [h for h in headers if h.lower().startswith("content-length:")]
            length = int(lengths[0].partition(":")[2]) if lengths else 0
            if len(rest) < length:
                return
            self._read = rest[length:]
            method, path, _ = line.split(" ")
            body = self._site.answer(self._ip, method, path, rest[:length])
            head_out = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
            self._transport.write(head_out.encode() + body)


async def serve(count: int, network: str) -> None:
    """Listen until the process ends; says so on standard output."""
    site, loop = Site(), asyncio.get_running_loop()
    addresses = [address(network, number) for number in range(count)]
    site.engines = {
        ip: Engine(service_name(number // PER_SERVICE)) for number, ip in enumerate(addresses)
    }
    for port in (HEALTH_PORT, ADMIN_PORT):
        await loop.create_server(lambda: Http(site), addresses, port, backlog=16)
    print("ready", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="bench.operator_cost.engines", description=__doc__)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--network", required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.count, options.network))


if __name__ == "__main__":
    main()
