"""From bytes to checked bodies; each mistake becomes a 400 that names the field."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from paceline_engine.server.errors import BadRequestError, ContextLengthError
from paceline_engine.server.known_fields import CONTEXT_TOKENS

Body = TypeVar("Body", bound=BaseModel)


def parse_body(model: type[Body], raw: bytes, context_tokens: int | None = None) -> Body:
    """Reads a JSON body.

    Args:
        model: What it must be.
        raw: Its bytes.
        context_tokens: Prompt plus output tokens of one request at most; None: any.

    Raises:
        ContextLengthError: More ids than can fit.
        BadRequestError: Not JSON, or a field is wrong; the given values are not repeated.
    """
    try:
        return model.model_validate_json(raw, context={CONTEXT_TOKENS: context_tokens})
    except ValidationError as error:
        raise bad_request(error) from error


def bad_request(error: ValidationError) -> BadRequestError:
    """The first mistake of a validation as a 400."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return BadRequestError("the body is not valid JSON", code="invalid_json")
    if first["type"] == "unsupported_field":
        field = str(first["ctx"]["field"])
        return BadRequestError(
            f"{field}: this value is not supported yet; leave it out",
            param=field,
            code="unsupported",
        )
    if first["type"] == "ids_too_long":
        return ContextLengthError(str(first["ctx"]["reason"]), param=str(first["ctx"]["field"]))
    if first["type"] == "contradiction":
        field, reason = str(first["ctx"]["field"]), first["ctx"]["reason"]
        return BadRequestError(f"{field}: {reason}", param=field, code="invalid_value")
    path = [part for part in first["loc"] if isinstance(part, int) or _is_field(part)]
    if not path:
        return BadRequestError("the body must be a JSON object", code="invalid_value")
    where = ".".join(str(part) for part in path)
    return BadRequestError(f"{where}: {first['msg']}", param=str(path[0]), code="invalid_value")


def _is_field(part: str) -> bool:
    """Whether a location names a field; pydantic mixes in the kinds of a union."""
    return part.isidentifier() and part not in {"str", "text"}
