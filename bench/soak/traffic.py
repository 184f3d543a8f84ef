"""What clients ask for in a soak: seeded, mixed, some of it rude."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.soak.call import Call

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
SHARED_PREFIXES = 8
PREFIX_TOKENS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Law of a load.

    Attributes:
        seed: Of everything drawn.
        rate_per_s: Mean arrivals, Poisson.
        vocabulary: Token ids of prompts lie below it.
        largest_prompt: In tokens.
        mean_output: In tokens, exponential.
    """

    seed: int
    rate_per_s: float
    vocabulary: int
    largest_prompt: int
    mean_output: float

    def calls(self, seconds: float) -> Iterator[tuple[float, Call]]:
        """(time since the start, call) in order."""
        draw = random.Random(self.seed)
        prefixes = [self._tokens(draw, PREFIX_TOKENS) for _ in range(SHARED_PREFIXES)]
        at_s = draw.expovariate(self.rate_per_s)
        while at_s < seconds:
            yield at_s, self._call(draw, prefixes)
            at_s += draw.expovariate(self.rate_per_s)

    def _call(self, draw: random.Random, prefixes: list[list[int]]) -> Call:
        is_chat = draw.random() < 0.15
        body = {**self._chat(draw)} if is_chat else {**self._prompt(draw, prefixes)}
        body |= self._options(draw, is_chat=is_chat)
        leave = draw.expovariate(1.0) if draw.random() < 0.08 else None
        return Call(CHAT if is_chat else COMPLETIONS, body, leave_after_s=leave)

    def _prompt(self, draw: random.Random, prefixes: list[list[int]]) -> dict[str, Any]:
        size = 1 + int(draw.paretovariate(1.2) * 8) % self.largest_prompt
        tokens = self._tokens(draw, size)
        if draw.random() < 0.5:
            tokens = [*draw.choice(prefixes), *tokens]
        if draw.random() < 0.02:
            tokens = self._tokens(draw, 20_000)  # never fits: refused with the numbers
        return {"prompt": [tokens, tokens[:5]] if draw.random() < 0.05 else tokens}

    def _chat(self, draw: random.Random) -> dict[str, Any]:
        words = "".join(chr(draw.randrange(97, 123)) for _ in range(draw.randrange(1, 200)))
        return {"messages": [{"role": "user", "content": words}]}

    def _options(self, draw: random.Random, *, is_chat: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"max_tokens": 1 + int(draw.expovariate(1 / self.mean_output))}
        if draw.random() < 0.6:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        if draw.random() < 0.2:
            options["service_tier"] = "flex"
        if draw.random() < 0.1:
            options["n"] = draw.randrange(2, 5)
        if draw.random() < 0.1:
            options["stop"] = [chr(draw.randrange(97, 123)), "zz"]
        if draw.random() < 0.1:
            options |= {"logprobs": True, "top_logprobs": 2} if is_chat else {"logprobs": 2}
        if draw.random() < 0.05:
            options["cache_salt"] = str(draw.randrange(4))
        if draw.random() < 0.03:
            options["temperature"] = -1  # refused
        return options

    def _tokens(self, draw: random.Random, count: int) -> list[int]:
        return [draw.randrange(self.vocabulary) for _ in range(count)]
