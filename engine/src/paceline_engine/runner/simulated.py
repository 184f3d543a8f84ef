"""The simulated device: real scheduling and accounting, a forward pass that only takes time.

Tokens follow from seed and position alone, so outputs are the same under any batching,
chunking or preemption. End-of-generation tokens are never drawn: an output runs to
`max_tokens` unless the request names stop tokens, whether it ignores the end or not.

Settings count as far as they can without logits; see `simulated_settings`. Where a request
rules out the token of the law, the next allowed id stands there; a bias that forces tokens
leaves the choice among those, an end-of-generation token too. Temperature, top_k, top_p, min_p
and penalties change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from paceline_engine.clock import Clock
from paceline_engine.config import StepTimeLaw
from paceline_engine.request import Fault
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.runner.failure import Failure
from paceline_engine.runner.forbidden import NO_BAD_WORDS, BadWords, BadWordsOfStep
from paceline_engine.runner.simulated_settings import (
    banned_tokens,
    drawn_logprobs,
    forbidden_at_end,
    forced_tokens,
    prompt_logprobs,
)
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput

HOST_GAP_S = 0.002  # host work up to this long hides behind the device, as on a real one
_MASK = (1 << 64) - 1


def step_seconds(law: StepTimeLaw, num_tokens: int, kv_tokens: int) -> float:
    """Step time in seconds for scheduled and resident tokens; the formula of `StepTimeLaw`."""
    floor_ms = law.floor_ms + law.floor_per_token_ms * num_tokens
    line_ms = law.base_ms + law.per_token_ms * num_tokens
    return (max(floor_ms, line_ms) + law.per_kv_token_ms * kv_tokens) / 1e3


def mix(seed: int, position: int) -> int:
    """64 well-spread bits of (seed, position): the finaliser of SplitMix64."""
    bits = (seed + (position + 1) * 0x9E3779B97F4A7C15) & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


class TokenLaw:
    """Which token stands at a position: hash(seed, position), end tokens left out.

    Args:
        vocab_size: Ids run from 0 to vocab_size - 1.
        avoided: Ids never drawn.
    """

    def __init__(self, vocab_size: int, avoided: Iterable[int]) -> None:
        self.vocab_size = vocab_size
        self.avoided = sorted({token for token in avoided if 0 <= token < vocab_size})
        self._choices = vocab_size - len(self.avoided)
        if self._choices < 1:
            raise ValueError(f"no token is left to draw in a vocabulary of {vocab_size}")

    def token(self, seed: int, position: int) -> int:
        """The token of a request with that seed at that absolute position."""
        token = mix(seed, position) % self._choices
        for avoided in self.avoided:
            if token < avoided:
                break
            token += 1
        return token

    def token_outside(self, seed: int, position: int, excluded: Collection[int]) -> int | None:
        """That token, or the next id that is neither excluded nor avoided; None if all are."""
        token = self.token(seed, position)
        for _ in range(self.vocab_size):
            if token not in excluded and token not in self.avoided:
                return token
            token = (token + 1) % self.vocab_size
        return None


class SimulatedRunner:
    """Runs a step by waiting for as long as the law says.

    A step starts when the device has ended the one before, if the host came back within
    `HOST_GAP_S`, else now. So a busy engine's steps follow each other at the law's pace and
    the host's own time is inside them, not on top.

    Args:
        law: Step time.
        tokens: Token law.
        clock: Waited on.
    """

    def __init__(self, law: StepTimeLaw, tokens: TokenLaw, clock: Clock) -> None:
        self._law = law
        self._tokens = tokens
        self._clock = clock
        self._bad_words = BadWordsOfStep()
        self._free_at = float("-inf")

    def execute(self, output: SchedulerOutput) -> RunnerOutput:
        """See `Runner`."""
        now = self._clock.now()
        start = self._free_at if now - self._free_at <= HOST_GAP_S else now
        duration = step_seconds(self._law, output.num_tokens, output.resident_kv_tokens)
        self._free_at = start + duration
        chunks = [chunk for chunk in output.chunks if chunk.samples]
        words = self._bad_words.of((chunk.request_id, chunk.sampling) for chunk in chunks)
        drawn = {
            chunk.request_id: self._draw(chunk, words.get(chunk.request_id, NO_BAD_WORDS))
            for chunk in chunks
        }
        sampled = {owner: token for owner, token in drawn.items() if token is not None}
        exhausted = sorted(drawn.keys() - sampled.keys())
        self._clock.sleep_until(self._free_at)
        return RunnerOutput(
            sampled=tuple(sampled.items()),
            failed=tuple((owner, Failure.EXHAUSTED.value) for owner in exhausted),
            faults=dict.fromkeys(exhausted, Fault.EXHAUSTED),
            logprobs=drawn_logprobs(output.chunks, sampled, self._tokens.vocab_size),
            prompt_logprobs=prompt_logprobs(output.chunks, self._tokens.vocab_size),
        )

    def _draw(self, chunk: ScheduledChunk, bad_words: BadWords) -> int | None:
        sampling, law = chunk.sampling, self._tokens
        if not sampling.shapes_logits:
            return law.token(sampling.seed, chunk.end)
        forbidden = forbidden_at_end(chunk, bad_words, law.avoided, law.vocab_size)
        if forced := [i for i in forced_tokens(sampling, law.vocab_size) if i not in forbidden]:
            return forced[mix(sampling.seed, chunk.end) % len(forced)]
        for excluded in (forbidden | banned_tokens(sampling), forbidden):
            token = law.token_outside(sampling.seed, chunk.end, excluded)
            if token is not None:
                return token
        return None

    def wipe(self, block_ids: Sequence[int]) -> None:
        """See `Runner`; there is nothing to overwrite."""

    def close(self) -> None:
        """See `Runner`."""
