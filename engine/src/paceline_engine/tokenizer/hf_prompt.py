"""What a post-processor of `tokenizer.json` puts around a prompt.

Read here and not asked of the library, which panics where a template names a token that it
does not define.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError

Json = Mapping[str, Any]


def begin_of_sequence(description: Json, count: int) -> int | None:
    """The token before every prompt, if any.

    Args:
        description: Content of `tokenizer.json`.
        count: Ids run from 0 to count - 1.

    Raises:
        UnsupportedTokenizerError: There are several tokens, or some after the prompt.
        TokenizerLoadError: The post-processor contradicts itself.
    """
    around = [token for step in _steps(description.get("post_processor")) for token in _put(step)]
    if len(around) > 1 or None in around:
        raise UnsupportedTokenizerError(
            f"puts {len(around)} tokens around a prompt; "
            "at most one begin-of-sequence token is supported"
        )
    bos = around[0] if around else None
    if bos is not None and not 0 <= bos < count:
        raise TokenizerLoadError(f"is broken: it begins prompts with {bos}, none of its ids")
    return bos


def _steps(processor: object) -> Iterator[Json]:
    if processor is None:
        return
    if not isinstance(processor, dict):
        raise TokenizerLoadError("is broken: post_processor is not a JSON object")
    if processor.get("type") == "Sequence":
        for inner in _list(processor.get("processors")):
            yield from _steps(inner)
    else:
        yield processor


def _put(processor: Json) -> Iterator[int | None]:
    """Ids put before the text; None for one that comes after it."""
    kind = processor.get("type")
    if kind == "ByteLevel":
        return
    if kind != "TemplateProcessing":
        raise UnsupportedTokenizerError(f"post-processor {kind} is not supported")
    is_after = False
    for piece in _list(processor.get("single")):
        if isinstance(piece, dict) and "Sequence" in piece:
            is_after = True
            continue
        for token_id in _ids(processor, piece):
            yield None if is_after else token_id


def _ids(processor: Json, piece: object) -> list[int]:
    try:
        ids = processor["special_tokens"][piece["SpecialToken"]["id"]]["ids"]  # type: ignore[index]
    except (KeyError, TypeError) as error:
        raise TokenizerLoadError(f"is broken: its template lacks {error}") from error
    if not all(type(token_id) is int for token_id in _list(ids)):
        raise TokenizerLoadError("is broken: an id in its template is no number")
    return list(ids)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TokenizerLoadError("is broken: its post-processor lacks a list")
    return value
