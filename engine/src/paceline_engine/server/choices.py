"""Which outputs a call asks the engine for: choices of each prompt, each with its own seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from paceline_engine.sampling import SamplingParams, choice_seed
from paceline_engine.server.errors import BadRequestError
from paceline_engine.server.sampling_fields import SamplingFields

MAX_SCORES: Final = 2**20
"""Log-probabilities of prompt tokens in one answer, and of output tokens: 60 MB of JSON each."""

TokenIds = tuple[int, ...]
BadWords = tuple[TokenIds, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A checked prompt that fits.

    Attributes:
        token_ids: What the engine computes.
        text: As given; None where ids were given and nobody has read them out.
        offsets: Where each token begins in the text; None where nobody has looked.
    """

    token_ids: TokenIds
    text: str | None = None
    offsets: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One output to generate.

    Attributes:
        prompt: Of which prompt.
        index: Which choice of that prompt; the others fork the KV of choice 0.
        sampling: How to draw.
    """

    prompt: Prompt
    index: int
    sampling: SamplingParams


def most_output(body: SamplingFields, prompt: Prompt, limit: int) -> int:
    """Output tokens that the engine may draw for a prompt, at least 1.

    A limit beyond the context is cut to it. `max_tokens: 0` shows none, yet one is drawn:
    the step that scores a prompt draws a token anyhow. Who gives no limit and wants
    log-probabilities gets as many tokens as an answer may hold those of.

    Args:
        body: The checked body.
        prompt: A prompt that fits.
        limit: Prompt plus output tokens of one request at most.
    """
    room = limit - len(prompt.token_ids)
    wanted = body.output_limit
    if wanted is None:
        scores = body.candidates * body.output_scores
        return min(room, MAX_SCORES // scores) if scores else room
    return max(1, min(wanted, room))


def check_scored(body: SamplingFields, prompts: Sequence[Prompt], copies: int) -> None:
    """Whether the log-probabilities that an answer shows of its prompts are within bounds.

    Args:
        body: The checked body.
        prompts: Its prompts.
        copies: How often the answer shows each prompt.

    Raises:
        BadRequestError: They are not.
    """
    echoed = body.shown_logprobs if body.echoes else None
    shown = [top + 1 for top in (body.prompt_logprobs, echoed) if top is not None]
    places = sum(len(prompt.token_ids) for prompt in prompts)
    if (scores := places * sum(shown) * copies) > MAX_SCORES:
        raise BadRequestError(
            f"the answer would hold {scores} log-probabilities of prompt tokens ({places} tokens, "
            f"{sum(shown)} for each, in {copies} choices); the limit is {MAX_SCORES}: ask "
            "for fewer choices, fewer of the best tokens or a shorter prompt",
            param="prompt_logprobs" if echoed is None else "logprobs",
            code="invalid_value",
        )


def check_output_scores(body: SamplingFields, prompts: Sequence[Prompt], limit: int) -> None:
    """Whether the log-probabilities that a call may draw are within bounds.

    Those of a stream count as well: one whose client does not read is held like a whole answer.

    Args:
        body: The checked body.
        prompts: Its prompts, which fit.
        limit: Prompt plus output tokens of one request at most.

    Raises:
        BadRequestError: They are not.
    """
    tokens = sum(most_output(body, prompt, limit) for prompt in prompts)
    if (scores := tokens * body.output_scores * body.candidates) > MAX_SCORES:
        raise BadRequestError(
            f"the outputs could have {scores} log-probabilities ({tokens} tokens, "
            f"{body.output_scores} for each, in {body.candidates} choices); the limit is "
            f"{MAX_SCORES}: ask for fewer choices, fewer of the best tokens or fewer tokens",
            param="best_of" if body.shown_logprobs is None else "logprobs",
            code="invalid_value",
        )


def plan_choices(
    body: SamplingFields,
    prompts: Sequence[Prompt],
    *,
    limit: int,
    draw_seed: Callable[[], int],
    bad_words: BadWords = (),
) -> Iterator[Choice]:
    """All outputs of a call: the choices of the first prompt, then of the second, and so on.

    Choice 0 has the call's seed, the others seeds that follow from it; every prompt of a call
    has the same, so a prompt's choices do not depend on its neighbours. Where the caller
    gives no seed each prompt draws one. Only choice 0 scores the prompt.

    Args:
        body: The checked body.
        prompts: Its prompts.
        limit: Prompt plus output tokens of one request at most.
        draw_seed: Seeds for callers that give none.
        bad_words: The body's, as token ids.
    """
    scores = body.needed_prompt_logprobs()
    for prompt in prompts:
        seed = draw_seed() if body.seed is None else body.seed
        sampling = body.params(
            max_tokens=most_output(body, prompt, limit), seed=0, bad_words=bad_words
        )
        for index in range(body.candidates):
            yield Choice(
                prompt=prompt,
                index=index,
                sampling=replace(
                    sampling,
                    seed=choice_seed(seed, index),
                    prompt_logprobs=scores if index == 0 else None,
                ),
            )
