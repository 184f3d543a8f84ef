"""The OpenAPI document of the API port, written from the models that check and make bodies."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

import msgspec
from pydantic import BaseModel

from paceline_engine.server.answer_wire import (
    ChatChunk,
    ChatCompletion,
    Completion,
)
from paceline_engine.server.caller import DEADLINE_HEADER, MAX_DEADLINE_MS, TENANT_HEADER
from paceline_engine.server.model_wire import ModelCard, ModelList
from paceline_engine.server.tokenize_wire import (
    Detokenized,
    DetokenizeRequest,
    Tokenized,
    TokenizeRequest,
)
from paceline_engine.server.wire import ChatRequest, CompletionRequest

Json = dict[str, Any]

_REF: Final = "#/components/schemas/{model}"
_ERRORS: Final = {
    400: "A field is missing, malformed, out of range or not served; `param` names it.",
    401: "The API key is missing or wrong.",
    404: "Another model than the served one.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    429: "Too much waits already; come again after `Retry-After` seconds.",
    500: "A defect, or the engine failed on this request.",
    503: "Loading, draining, dead or short of room for bodies; come again after `Retry-After` s.",
}
_ERROR: Final[Json] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}
_HEADERS: Final[list[Json]] = [
    {
        "name": DEADLINE_HEADER,
        "in": "header",
        "description": "Wanted end of the wait for a first token; breaks ties in the queue.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_DEADLINE_MS},
    },
    {
        "name": TENANT_HEADER,
        "in": "header",
        "description": "Name of the tenant; counts only where the server trusts it.",
        "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{1,128}$"},
    },
]
_GENERATING: Final = (400, 401, 404, 408, 413, 429, 500, 503)
_TOKENIZING: Final = (400, 401, 404, 408, 413, 503)


def describe(title: str, vocab_size: int) -> bytes:
    """The document as JSON.

    Args:
        title: Name of the application.
        vocab_size: Token ids lie below it.
    """
    requests: tuple[type[BaseModel], ...] = (
        CompletionRequest,
        ChatRequest,
        TokenizeRequest,
        DetokenizeRequest,
    )
    answers = (Completion, ChatCompletion, ChatChunk, ModelList, ModelCard, Tokenized, Detokenized)
    schemas: Json = {"Error": _ERROR}
    for model in requests:
        schema = deepcopy(model.model_json_schema(ref_template=_REF))
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    _, components = msgspec.json.schema_components(
        answers, ref_template=_REF.replace("model", "name")
    )
    schemas |= components
    _bound_ids(schemas, vocab_size)
    document = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "paths": _paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }
    return json.dumps(document).encode()


def _bound_ids(schemas: Json, vocab_size: int) -> None:
    """Says where token ids end: the models that check bodies know no vocabulary."""
    highest = vocab_size - 1
    for form in schemas["CompletionRequest"]["properties"]["prompt"]["anyOf"]:
        items = form.get("items", {})
        if "items" in items:
            items = items["items"]
        if items.get("type") == "integer":
            items["maximum"] = highest
    schemas["DetokenizeRequest"]["properties"]["tokens"]["items"]["maximum"] = highest
    for name in ("CompletionRequest", "ChatRequest"):
        stops = schemas[name]["properties"]["stop_token_ids"]["anyOf"][0]
        stops["items"] |= {"minimum": 0, "maximum": highest}


def _paths() -> Json:
    return {
        "/v1/completions": _post("CompletionRequest", "Completion", "Completion", _GENERATING),
        "/v1/chat/completions": _post("ChatRequest", "ChatCompletion", "ChatChunk", _GENERATING),
        "/tokenize": _post("TokenizeRequest", "Tokenized", None, _TOKENIZING),
        "/detokenize": _post("DetokenizeRequest", "Detokenized", None, _TOKENIZING),
        "/v1/models": {"get": {"responses": _responses(_content("ModelList"), (400, 401))}},
        "/v1/models/{name}": {
            "get": {
                "parameters": [
                    {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "responses": _responses(_content("ModelCard"), (400, 401, 404)),
            }
        },
    }


def _post(body: str, answer: str, chunk: str | None, errors: tuple[int, ...]) -> Json:
    content = _content(answer)
    if chunk is not None:
        content["text/event-stream"] = {"schema": _event(chunk)}
    route: Json = {
        "requestBody": {"required": True, "content": _content(body)},
        "responses": _responses(content, errors),
    }
    if chunk is not None:
        route["parameters"] = _HEADERS
    return {"post": route}


def _event(chunk: str) -> Json:
    """One server-sent event of a stream."""
    return {
        "type": "object",
        "description": f"With stream: true: events of {chunk} objects, ended by [DONE]; one of "
        "an Error ends a stream that cannot go on.",
        "properties": {"data": {"type": "string"}},
        "required": ["data"],
    }


def _content(name: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _responses(content: Json, errors: tuple[int, ...]) -> Json:
    responses: Json = {"200": {"description": "Served.", "content": content}}
    for status in errors:
        responses[str(status)] = {"description": _ERRORS[status], "content": _content("Error")}
    return responses
