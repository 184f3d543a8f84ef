from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from openai import OpenAI

from tests.support.engine_server import EngineServer, engine_server

MODEL = "tiny"


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
