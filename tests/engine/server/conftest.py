from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator

import httpx
import pytest
import uvloop
from openai import OpenAI

from tests.support.engine_server import EngineServer, engine_server

MODEL = "tiny"


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], AbstractEventLoop]]:
    """The event loop that serves."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def server() -> Iterator[EngineServer]:
    with engine_server(f"--served-name={MODEL}", "--max-model-len=512") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: EngineServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.api}/v1", api_key="none", max_retries=0) as openai:
        yield openai


@pytest.fixture(scope="module")
def http(server: EngineServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.api, timeout=20) as client:
        yield client
