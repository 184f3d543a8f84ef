"""The operator's own HTTP server: metrics and the two probes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Probe = Callable[[], str]
"""Returns what is wrong, empty where nothing is."""


def application(registry: CollectorRegistry, alive: Probe, ready: Probe) -> web.Application:
    """Routes `/metrics`, `/healthz`, `/readyz`."""

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(registry), headers=headers)

    def answer(probe: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(_: web.Request) -> web.Response:
            trouble = probe()
            return web.Response(status=503 if trouble else 200, text=trouble or "ok")

        return handle

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", answer(alive))
    app.router.add_get("/readyz", answer(ready))
    return app


async def serve(app: web.Application, port: int) -> web.AppRunner:
    """Serve on all addresses; the caller cleans the runner up.

    Raises:
        OSError: The port is taken.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, None, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner
