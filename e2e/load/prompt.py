"""Prompt text of a wanted length in tokens, and the body that carries it."""

from __future__ import annotations

from random import Random
from typing import Any, Literal

from e2e.load.plan import PlannedRequest

Vocabulary = Literal["words", "bytes"]
Route = Literal["chat", "completions"]

PATHS: dict[Route, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}

# Each is one token after a space in the vocabularies of GPT-2, Llama 3 and SmolLM2.
_WORDS = """
time people water world house school family story night music river light summer garden
morning paper table window road city town village mountain ocean teacher student doctor
friend mother father brother sister child number letter question answer problem idea reason
result history science language culture travel market company business service system energy
weather winter spring green white black small large great little young early late
"""
WORDS = tuple(_WORDS.split())


def prompt_text(tokens: int, vocabulary: Vocabulary, rng: Random) -> str:
    """Text of `tokens` tokens, without what a chat template adds.

    Args:
        tokens: Wanted length, at least 1.
        vocabulary: `bytes` for the simulated device, where a token is one byte and the
            length is exact; `words` for models, where it is near.
        rng: Source of the words; seeded by the caller.
    """
    count = tokens if vocabulary == "words" else tokens // 4 + 1
    text = " ".join(rng.choices(WORDS, k=count))
    return text if vocabulary == "words" else text[:tokens].ljust(tokens, ".")


def request_body(
    request: PlannedRequest,
    *,
    model: str,
    route: Route,
    vocabulary: Vocabulary,
    seed: int,
    ignore_eos: bool,
) -> dict[str, Any]:
    """OpenAI body of one planned request; equal arguments give equal bodies."""
    rng = Random(f"prompt {seed} {request.number}")
    text = prompt_text(request.prompt_tokens, vocabulary, rng)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "temperature": 0.8,
        "seed": rng.getrandbits(31),
        "stream": request.streamed,
    }
    if route == "chat":
        body["messages"] = [{"role": "user", "content": text}]
    else:
        body["prompt"] = text
    if request.streamed:
        body["stream_options"] = {"include_usage": True}
    if ignore_eos:
        body["ignore_eos"] = True
    return body
