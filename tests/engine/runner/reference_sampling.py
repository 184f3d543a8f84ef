"""Sampling straight from the definitions, in numpy and plain loops, to compare with.

Settings drawn by `SETTINGS` and logits by `ROWS` are dyadic, so that sums and quotients are
exact in any precision and equals are equals on both sides.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline_engine.sampling import SamplingParams

VOCABULARY = 24
TOKENS = st.integers(0, VOCABULARY - 1)
ROWS = st.lists(st.integers(-40, 40).map(lambda n: n / 8), min_size=24, max_size=24)
HISTORIES = st.tuples(st.lists(TOKENS, min_size=1, max_size=9), st.lists(TOKENS, max_size=9))
SETTINGS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.5, 0.7, 1.0, 1.5]),
    top_p=st.sampled_from([1.0, 0.877, 0.313]),
    top_k=st.sampled_from([0, 1, 3, 7, 99]),
    min_p=st.sampled_from([0.0, 0.0713, 0.313]),
    seed=st.integers(0, 2**64 - 1),
    min_tokens=st.integers(0, 6),
    stop_token_ids=st.lists(TOKENS, max_size=2).map(tuple),
    presence_penalty=st.sampled_from([0.0, 0.5, -1.25, 2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.5, -0.25, 2.0]),
    repetition_penalty=st.sampled_from([1.0, 0.5, 2.0, 4.0]),
    logit_bias=st.dictionaries(TOKENS, st.integers(-40, 40).map(lambda n: n / 4), max_size=4).map(
        lambda biases: tuple(biases.items())
    ),
    bad_words=st.lists(st.lists(TOKENS, min_size=1, max_size=3).map(tuple), max_size=5).map(tuple),
)

Row = NDArray[np.float64]


def adjusted(
    logits: Row, sampling: SamplingParams, prompt: list[int], output: list[int], ends: list[int]
) -> Row:
    """Masks, bias and penalties in the order in which vLLM lists them."""
    row = np.array(logits, np.float64)
    for word in sampling.bad_words:
        text = [*prompt, *output, word[-1]]
        if text[-len(word) :] == list(word):
            row[word[-1]] = -np.inf
    if len(output) < sampling.min_tokens:
        row[[*ends, *sampling.stop_token_ids]] = -np.inf
    for token, bias in sampling.logit_bias:
        row[token] += bias
    for token in range(len(row)):
        if token in prompt or token in output:
            factor = sampling.repetition_penalty
            row[token] = row[token] / factor if row[token] > 0 else row[token] * factor
        row[token] -= sampling.frequency_penalty * output.count(token)
        row[token] -= sampling.presence_penalty * (token in output)
    return row


def distribution(row: Row, sampling: SamplingParams) -> list[tuple[int, float]]:
    """(token, probability) of all that filters leave; best first if any filter orders them."""
    scaled = (row - row.max()) / sampling.temperature
    shares = np.exp(scaled)
    kept = [i for i in range(len(row)) if shares[i] > 0 and shares[i] >= sampling.min_p]
    if sampling.top_k or sampling.top_p < 1:
        kept.sort(key=lambda i: (-row[i], i))
    if sampling.top_k:
        kept = kept[: sampling.top_k]
    if sampling.top_p < 1:
        total, before, nucleus = sum(shares[i] for i in kept), 0.0, []
        for i in kept:
            if before < sampling.top_p * total:
                nucleus.append(i)
            before += shares[i]
        kept = nucleus
    total = sum(shares[i] for i in kept)
    return [(i, float(shares[i] / total)) for i in kept]


def place(tokens: list[tuple[int, float]], token: int) -> tuple[float, float]:
    """Where a token lies in the cumulative distribution."""
    before = 0.0
    for candidate, probability in tokens:
        if candidate == token:
            return before, before + probability
        before += probability
    raise AssertionError(f"token {token} is not one of {tokens}")
