"""The health port: liveness, readiness, metrics."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import PlainTextResponse, Response

from paceline_engine.server.error_routes import bare_app
from paceline_engine.server.flags import HealthPath
from paceline_engine.server.service import Service

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_health(service: Service) -> FastAPI:
    """Builds the application of the health port."""
    app = bare_app("Paceline engine health")
    routes = _Routes(service)
    app.add_api_route(HealthPath.LIVE, routes.live, methods=["GET", "HEAD"], response_model=None)
    app.add_api_route(HealthPath.READY, routes.ready, methods=["GET", "HEAD"], response_model=None)
    app.add_api_route(HealthPath.METRICS, routes.metrics, methods=["GET"], response_model=None)
    return app


class _Routes:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def live(self) -> Response:
        """200 while the engine is heard, 503 and the reason otherwise."""
        reason = self._service.why_dead()
        return PlainTextResponse(reason or "ok", 503 if reason else 200)

    async def ready(self) -> Response:
        """200 while routers should send requests here, 503 and the reason otherwise."""
        reason = self._service.why_unready()
        return PlainTextResponse(reason or "ok", 503 if reason else 200)

    async def metrics(self) -> Response:
        """Everything measured, in Prometheus' text format."""
        return Response(self._service.metering.metrics.render(), media_type=METRICS_TYPE)
