"""The served OpenAPI document says what the code does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from paceline_engine.server.api_document import describe
from paceline_engine.server.known_fields import NEUTRAL
from paceline_engine.server.tokenize_wire import DetokenizeRequest, TokenizeRequest
from paceline_engine.server.wire import ChatRequest, CompletionRequest
from tests.support.tree import ROOT

DOCUMENT: dict[str, Any] = json.loads(describe("t", 100))
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_is_there() -> None:
    names = {each.removeprefix("#/components/schemas/") for each in references(DOCUMENT)}
    assert names
    assert names <= SCHEMAS.keys()


@pytest.mark.parametrize(
    "model", [CompletionRequest, ChatRequest, TokenizeRequest, DetokenizeRequest]
)
def test_every_field_is_described(model: Any) -> None:
    assert SCHEMAS[model.__name__]["properties"].keys() >= model.model_fields.keys()


def test_fields_that_are_not_served_take_their_neutral_values_only() -> None:
    for name in NEUTRAL:
        assert SCHEMAS["ChatRequest"]["properties"][name] == {"enum": list(NEUTRAL[name])}


def test_token_ids_end_with_the_vocabulary() -> None:
    properties = SCHEMAS["CompletionRequest"]["properties"]
    assert properties["prompt"]["anyOf"][2]["items"]["maximum"] == 99
    assert properties["prompt"]["anyOf"][3]["items"]["items"]["maximum"] == 99
    assert properties["stop_token_ids"]["anyOf"][0]["items"]["maximum"] == 99
    again = json.loads(describe("t", 50))["components"]["schemas"]["CompletionRequest"]
    assert again["properties"]["prompt"]["anyOf"][2]["items"]["maximum"] == 49


def test_a_stop_is_a_text_or_a_list() -> None:
    kinds = [form.get("type") for form in SCHEMAS["ChatRequest"]["properties"]["stop"]["anyOf"]]
    assert kinds == ["string", "array", "null"]


def test_every_served_route_is_described(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["paths"].keys() == DOCUMENT["paths"].keys()
    for path, route in document["paths"].items():
        for method, operation in route.items():
            url = path.replace("{name}", "tiny")
            answer = http.request(method, url, json={} if method == "post" else None)
            assert str(answer.status_code) in operation["responses"], (path, answer.text)
            if method == "post":
                assert {"400", "401", "413"} <= operation["responses"].keys()


@pytest.mark.parametrize("model", [CompletionRequest, ChatRequest])
def test_every_field_is_in_the_guide(model: Any) -> None:
    guide = (ROOT / "docs/api.md").read_text()
    assert {name for name in model.model_fields if f"`{name}`" not in guide} == set()
