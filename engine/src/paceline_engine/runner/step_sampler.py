"""From a step's hidden states to what the step produced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from paceline_engine.message import TokenLogprobs
from paceline_engine.runner.adjustment import Adjustments
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.runner.failure import Failure
from paceline_engine.runner.logprobs import prompt_logprobs, score
from paceline_engine.runner.sampler import Draw, sample
from paceline_engine.runner.step_tensors import sampling_rows
from paceline_engine.scheduler.output import ScheduledChunk

Scores = Mapping[int, Sequence[TokenLogprobs | Failure]]


class StepSampler:
    """Draws tokens and reports log-probabilities, a step at a time.

    Args:
        vocab_size: Ids from here on are never drawn nor listed: the tokenizer has no such
            token, whatever rows the model's head was padded to.
        end_token_ids: End-of-generation set of the model.
    """

    def __init__(self, vocab_size: int, end_token_ids: Iterable[int]) -> None:
        self._vocab_size = vocab_size
        self._adjustments = Adjustments(vocab_size, end_token_ids)

    def output(
        self,
        chunks: Sequence[ScheduledChunk],
        hidden: torch.Tensor,
        head: Callable[[torch.Tensor], torch.Tensor],
    ) -> RunnerOutput:
        """Tokens, log-probabilities and failures of one step.

        Args:
            chunks: Of the step.
            hidden: [rows of the step, hidden].
            head: From hidden states to logits [rows, model vocabulary]; only rows that are
                needed pass through it.
        """
        prompts = prompt_logprobs(chunks, hidden, head, self._vocab_size)
        sampling = [chunk for chunk in chunks if chunk.samples]
        if not sampling:
            return outcome({}, {}, prompts, self._vocab_size)
        logits = head(hidden.index_select(0, sampling_rows(chunks)))
        drawn = self._drawn(sampling, logits)
        return outcome(drawn, self._scored(sampling, logits, drawn), prompts, self._vocab_size)

    def _drawn(
        self, chunks: Sequence[ScheduledChunk], logits: torch.Tensor
    ) -> dict[int, int | Failure]:
        adjustments = self._adjustments.of(chunks)
        draws = [Draw(c.sampling, c.end, adjustments.get(c.request_id)) for c in chunks]
        tokens = sample(logits[:, : self._vocab_size], draws)
        return {chunk.request_id: token for chunk, token in zip(chunks, tokens, strict=True)}

    def _scored(
        self,
        chunks: Sequence[ScheduledChunk],
        logits: torch.Tensor,
        drawn: Mapping[int, int | Failure],
    ) -> Scores:
        scores: dict[int, tuple[TokenLogprobs | Failure]] = {}
        for row, chunk in zip(logits, chunks, strict=True):
            token, top = drawn[chunk.request_id], chunk.sampling.logprobs
            if top is not None and not isinstance(token, Failure):
                scores[chunk.request_id] = (score(row, token, top, self._vocab_size),)
        return scores


def outcome(
    drawn: Mapping[int, int | Failure], scores: Scores, prompts: Scores, vocab_size: int
) -> RunnerOutput:
    """What a step produced; a result that cannot be true fails its request, not the engine.

    Args:
        drawn: Token, or why there is none, by request id.
        scores: Log-probabilities at the drawn token, one each.
        prompts: Those of prompt tokens.
        vocab_size: Ids run from 0 to vocab_size - 1.
    """
    failed: dict[int, Failure] = {}
    for owner, found in (*prompts.items(), *scores.items()):
        if any(isinstance(each, Failure) for each in found):
            failed[owner] = Failure.NON_FINITE
    for owner, token in drawn.items():
        if isinstance(token, Failure):
            failed[owner] = token
        elif not 0 <= token < vocab_size:
            failed[owner] = Failure.OUTSIDE
    return RunnerOutput(
        sampled=tuple(
            (owner, token)
            for owner, token in drawn.items()
            if owner not in failed and not isinstance(token, Failure)
        ),
        failed=tuple((owner, failure.value) for owner, failure in failed.items()),
        faults={owner: fault for owner, each in failed.items() if (fault := each.fault)},
        logprobs={owner: found[0] for owner, found in _sound(scores, failed).items()},
        prompt_logprobs=_sound(prompts, failed),
    )


def _sound(scores: Scores, failed: Mapping[int, Failure]) -> dict[int, tuple[TokenLogprobs, ...]]:
    return {
        owner: tuple(each for each in found if not isinstance(each, Failure))
        for owner, found in scores.items()
        if owner not in failed
    }
