"""What a request's settings do to its logits before a token is drawn from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from paceline_engine.runner.failure import Failure
from paceline_engine.runner.forbidden import BadWords, forbidden_tokens
from paceline_engine.runner.token_tally import TokenTally
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk


class Adjustment:
    """Bias, penalties and masks of one request.

    Each means what it means in vLLM: bad words, minimum length, logit bias, then the
    repetition, frequency and presence penalties, ahead of temperature, min_p, top_k and top_p
    (vllm/v1/sample/sampler.py at commit 3e342658, docstring of `Sampler`). Masks come last
    here, which gives the same, for neither bias nor penalty lifts minus infinity; so an
    infinity met before them is an overflow. Repetition looks at prompt and output, frequency
    and presence at the output. Bad words look at prompt and output too, where vLLM looks at the
    output: what the prompt began is not finished either.

    Args:
        sampling: Settings of the request.
        history: Its tokens, prompt first; grows in place.
        num_prompt_tokens: How many of them are the prompt.
        vocab_size: Width of its rows of logits; ids beyond it change nothing.
        end_token_ids: End-of-generation set of the model.
    """

    def __init__(
        self,
        sampling: SamplingParams,
        history: Sequence[int],
        *,
        num_prompt_tokens: int,
        vocab_size: int,
        end_token_ids: Sequence[int] = (),
    ) -> None:
        self.history = history
        self._sampling = sampling
        self._num_prompt_tokens = num_prompt_tokens
        self._vocab_size = vocab_size
        self._end_token_ids = end_token_ids
        self._bad_words = BadWords(sampling.bad_words)
        biases = {i: bias for i, bias in sampling.logit_bias if 0 <= i < vocab_size}
        self._biased = torch.tensor(list(biases), dtype=torch.int64)
        self._biases = torch.tensor(list(biases.values()), dtype=torch.float32)
        self._tally = _tally(sampling, num_prompt_tokens, vocab_size)

    def apply(self, logits: torch.Tensor, position: int) -> torch.Tensor | Failure:
        """The row to draw from; `logits` stays as it is.

        Args:
            logits: [vocabulary] fp32, finite.
            position: Where the drawn token will stand; `history` reaches it.

        Returns:
            A row with minus infinity where a token is forbidden, or why there is none.
        """
        row = logits.clone()
        if not (self._add_biases(row) and self._penalise(row, position)):
            return Failure.OVERFLOW
        forbidden = forbidden_tokens(
            self._sampling,
            bad_words=self._bad_words,
            history=self.history,
            position=position,
            num_prompt_tokens=self._num_prompt_tokens,
            end_token_ids=self._end_token_ids,
            vocab_size=self._vocab_size,
        )
        if forbidden:
            row[torch.tensor(list(forbidden))] = -torch.inf
        return Failure.EXHAUSTED if len(forbidden) == self._vocab_size else row

    def _add_biases(self, row: torch.Tensor) -> bool:
        """Adds each bias; returns whether all stayed finite."""
        if not len(self._biased):
            return True
        values = row[self._biased] + self._biases
        row[self._biased] = values
        return bool(values.isfinite().all())

    def _penalise(self, row: torch.Tensor, position: int) -> bool:
        """Lowers what the request holds already; returns whether all stayed finite."""
        if self._tally is None:
            return True
        self._tally.extend(self.history, position)
        ids, counts = self._tally.ids, self._tally.output_counts
        sampling, values = self._sampling, row[ids]
        factor = sampling.repetition_penalty
        values = torch.where(values > 0, values / factor, values * factor)
        values -= sampling.frequency_penalty * counts
        values -= sampling.presence_penalty * (counts > 0)
        row[ids] = values
        return bool(values.isfinite().all())


def _tally(sampling: SamplingParams, num_prompt_tokens: int, vocab_size: int) -> TokenTally | None:
    repeats = sampling.repetition_penalty != 1.0
    if not (repeats or sampling.presence_penalty or sampling.frequency_penalty):
        return None
    return TokenTally(num_prompt_tokens, vocab_size, lists_prompt=repeats)


class Adjustments:
    """The adjustments of all requests that sampled in the step before.

    One that sat a step out is taken up anew from its history, so nobody has to say when a
    request has ended.

    Args:
        vocab_size: Width of a row of logits.
        end_token_ids: End-of-generation set of the model.
    """

    def __init__(self, vocab_size: int, end_token_ids: Iterable[int]) -> None:
        self._vocab_size = vocab_size
        self._end_token_ids = tuple(end_token_ids)
        self._last: dict[int, Adjustment] = {}

    def of(self, chunks: Iterable[ScheduledChunk]) -> dict[int, Adjustment]:
        """By request id, for those of a step's sampling chunks whose settings ask for one."""
        self._last = {
            chunk.request_id: self._continued(chunk) or self._started(chunk)
            for chunk in chunks
            if chunk.sampling.shapes_logits
        }
        return self._last

    def _continued(self, chunk: ScheduledChunk) -> Adjustment | None:
        last = self._last.get(chunk.request_id)
        return last if last is not None and last.history is chunk.history else None

    def _started(self, chunk: ScheduledChunk) -> Adjustment:
        return Adjustment(
            chunk.sampling,
            chunk.history,
            num_prompt_tokens=chunk.num_prompt_tokens,
            vocab_size=self._vocab_size,
            end_token_ids=self._end_token_ids,
        )
