"""From bytes to checked bodies; each mistake becomes a 400 that names the field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from paceline_engine.server.errors import BadRequestError, ContextLengthError
from paceline_engine.server.known_fields import CONTEXT_TOKENS
from paceline_engine.server.sampling_fields import TIERS

PROMPT_FORMS: Final = (
    "must be a text, a list of texts, a list of token ids, or a list of such lists"
)
PLAIN: Final = {
    "missing": "is missing",
    "string_type": "must be a text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "may have at most {max_length} characters",
    "too_short": "must hold at least {min_length}",
    "too_long": "may hold at most {max_length}",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "model_type": "must be an object",
    "dict_type": "must be an object",
}
"""Plain words for the mistakes that are made most, by pydantic's names of them."""
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
    return BadRequestError(_in_words(path, first), param=str(path[0]), code="invalid_value")


def _in_words(path: Sequence[int | str], mistake: ErrorDetails) -> str:
    """Where it is and what would be right; pydantic's own words where those are plain."""
    where, kind, given = ".".join(map(str, path)), mistake["type"], mistake.get("ctx", {})
    if path[0] == "prompt" and kind != "missing":
        return f"prompt: {PROMPT_FORMS}"
    if path[0] == "service_tier":
        return f"{where}: must be one of {', '.join(TIERS)}"
    words = PLAIN.get(kind)
    return f"{where}: {words.format(**given) if words else mistake['msg']}"


def _is_field(part: str) -> bool:
    """Whether a location names a field; pydantic mixes in the kinds of a union."""
    return part.isidentifier() and part not in {"str", "text"}
