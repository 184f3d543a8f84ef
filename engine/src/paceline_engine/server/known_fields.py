"""Fields we know of and do not serve, fields that nobody knows, and those that clash.

A known field that would change the answer and is not served yet is refused, never ignored:
`NEUTRAL` lists the values that ask for nothing. Unknown fields are ignored, as other servers
do; their names are logged for whoever looks for a misspelt one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError, PydanticKnownError

from paceline_engine.server.errors import ContextLengthError

CONTEXT_TOKENS: Final = "context_tokens"
"""Key of the validation context: prompt plus output tokens of one request at most."""

_log = logging.getLogger(__name__)
_MAX_LOGGED: Final = 20

# Names that one route has as fields of its own are refused by the other.
NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "suffix": (None, ""),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "guided_choice": (None,),
    "guided_grammar": (None,),
    "use_beam_search": (None, False),
    "allowed_token_ids": (None,),
    "logprob_token_ids": (None,),
    "truncate_prompt_tokens": (None,),
    "thinking_token_budget": (None,),
    "repetition_detection": (None,),
    "functions": (None, []),
    "function_call": (None, "none"),
    "chat_template": (None,),
    "documents": (None, []),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prompt_embeds": (None,),
    "echo": (None, False),
    "add_special_tokens": (None, False),
    "return_tokens_as_token_ids": (None, False),
    "priority": (None, 0),
    "watermarking": (None, False),
    "kv_transfer_params": (None,),
    "mm_processor_kwargs": (None,),
    "vllm_xargs": (None,),
    "web_search_options": (None,),
}


def _same(value: object, neutral: object) -> bool:
    if isinstance(value, bool) or isinstance(neutral, bool):
        return value is neutral
    return value == neutral


def contradiction(field: str, reason: str) -> PydanticCustomError:
    """Error of a body whose fields are each fine and do not go together."""
    return PydanticCustomError("contradiction", "{reason}", {"field": field, "reason": reason})


def at_most(entries: int) -> BeforeValidator:
    """Refuses an object with more entries before each makes a mistake of its own."""

    def check(value: object) -> object:
        if isinstance(value, dict) and len(value) > entries:
            raise PydanticKnownError(
                "too_long",
                {"field_type": "Dictionary", "max_length": entries, "actual_length": len(value)},
            )
        return value

    return BeforeValidator(check)


def too_long(refusal: ContextLengthError) -> PydanticCustomError:
    """Error of a body whose ids are more than can fit, so that nobody looks at each."""
    return PydanticCustomError(
        "ids_too_long", "{reason}", {"field": refusal.param, "reason": refusal.message}
    )


def check_extra(extra: Mapping[str, object]) -> None:
    """Refuses known fields whose values are not served, naming the first; logs unknown names.

    Args:
        extra: Fields of a body that its model does not have. Values are never logged.

    Raises:
        PydanticCustomError: `unsupported_field`.
    """
    for name, neutral in NEUTRAL.items():
        if name in extra and not any(_same(extra[name], each) for each in neutral):
            raise PydanticCustomError("unsupported_field", "{field}", {"field": name})
    if extra and _log.isEnabledFor(logging.DEBUG):
        _log_unknown(extra.keys() - NEUTRAL.keys())


def _log_unknown(names: Iterable[str]) -> None:
    plain = sorted(name for name in names if name.isidentifier() and len(name) <= 64)
    if plain:
        _log.debug("ignored unknown fields: %s", ", ".join(plain[:_MAX_LOGGED]))


def describe_unserved(schema: dict[str, Any]) -> None:
    """Adds the refused fields to a JSON schema: only their neutral values are taken."""
    for name, neutral in NEUTRAL.items():
        schema["properties"].setdefault(name, {"enum": list(neutral)})
