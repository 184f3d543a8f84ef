"""Turns refusals and the framework's own errors into OpenAI's error bodies."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from paceline_engine.server.errors import (
    ApiError,
    BadRequestError,
    InternalError,
    MethodNotAllowedError,
    NotFoundError,
)


def error_response(error: ApiError) -> Response:
    """Answer of a refusal."""
    return Response(
        error.body(), error.status, headers=error.headers(), media_type="application/json"
    )


def bare_app(title: str) -> FastAPI:
    """An application without documentation routes, whose errors have OpenAI's form."""
    app = FastAPI(title=title, openapi_url=None, docs_url=None, redoc_url=None)
    app.add_exception_handler(ApiError, _on_api_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_defect)
    return app


async def _on_api_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    return error_response(error)


async def _on_http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 404:
        return error_response(NotFoundError(f"there is no {request.scope['path'][:100]} here"))
    if error.status_code == 405:
        return error_response(
            MethodNotAllowedError(
                f"{request.method} does not go with {request.scope['path'][:100]}",
                allowed=(error.headers or {}).get("Allow", ""),
            )
        )
    return error_response(BadRequestError("the request cannot be served as it is"))


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def _on_defect(_request: Request, _error: Exception) -> Response:
    """The framework raises the error again after this answer, so the envelope logs it."""
    return error_response(InternalError("internal error; the engine's log says where"))
