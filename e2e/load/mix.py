"""What requests ask for: kinds of request and their shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


class MixError(ValueError):
    """The text does not describe a mix; the message says what does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of request.

    Attributes:
        name: Label.
        weight: Its share, relative to the others'.
        prompt_tokens: Least and most, both possible.
        max_tokens: Least and most, both possible.
    """

    name: str
    weight: float
    prompt_tokens: tuple[int, int]
    max_tokens: tuple[int, int]

    def draw(self, rng: Random) -> tuple[int, int]:
        """Prompt and output tokens of one request, uniform in their ranges."""
        return rng.randint(*self.prompt_tokens), rng.randint(*self.max_tokens)


NAMED: dict[str, str] = {
    "chats": "chat:1:24-96:24-64",
    "chats-and-long-prompts": "chat:0.8:24-96:32-64,long:0.2:700-1000:8-16",
    "long-prompts": "long:1:700-1000:8-16",
}
FORM = "NAME:WEIGHT:PROMPT_TOKENS:MAX_TOKENS[,…], ranges as 24-96"


def parse_mix(text: str) -> tuple[Kind, ...]:
    """Kinds from a name in `NAMED` or from a text of the form `FORM`.

    Raises:
        MixError: It is neither.
    """
    kinds = tuple(_kind(part) for part in NAMED.get(text, text).split(","))
    if sum(kind.weight for kind in kinds) <= 0:
        raise MixError(f"mix {text!r}: all weights are zero")
    return kinds


def choose(kinds: Sequence[Kind], rng: Random) -> Kind:
    """One kind, by weight."""
    return rng.choices(kinds, [kind.weight for kind in kinds])[0]


def _kind(part: str) -> Kind:
    fields = part.split(":")
    try:
        name, weight, prompt, output = fields
        kind = Kind(
            name=name,
            weight=float(weight),
            prompt_tokens=_span(prompt),
            max_tokens=_span(output),
        )
    except ValueError:
        known = ", ".join(NAMED)
        raise MixError(f"mix {part!r} is not of the form {FORM}, nor one of {known}") from None
    if not 0 <= kind.weight < float("inf"):
        raise MixError(f"mix {part!r}: the weight is negative, or without end")
    return kind


def _span(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    span = int(low), int(high or low)
    if not 1 <= span[0] <= span[1]:
        raise ValueError(text)
    return span
