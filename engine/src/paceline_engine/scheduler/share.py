"""Weighted shares in virtual time: who has been served how much for its weight.

Start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996) in the
form that suits token generation (Sheng et al.: "Fairness in Serving Large Language Models",
OSDI 2024): a party's tag grows by tokens served over its weight, the smallest tag goes first,
and who comes back after a pause takes up the tag of those at work, so that a pause earns
nothing. As an output's length is known only at its end, admission charges what outputs of
that party took so far and the end settles the difference: else a party would be let in again
and again before its first tokens count.
"""

from __future__ import annotations

from math import isfinite

OUTPUT_MEMORY = 0.1
INITIAL_OUTPUT = 640.0
"""Expected of a party none of whose outputs has ended, within `max_tokens`. Rather too much: what
is not served is given back, while seats given away too early are taken for a whole output."""


class Share:
    """What one party (a tier, or a tenant inside one) has been served.

    Args:
        weight: Tokens it gets for each of a party of weight 1 while both wait.

    Attributes:
        tag: Tokens charged over the weight: virtual time.
        expected_output: Decode tokens one of its requests takes on average.

    Raises:
        ValueError: The weight is not a positive number.
    """

    __slots__ = ("expected_output", "tag", "weight")

    def __init__(self, weight: float) -> None:
        if not (isfinite(weight) and weight > 0):
            raise ValueError(f"a share needs a positive weight, not {weight}")
        self.weight = weight
        self.tag = 0.0
        self.expected_output = INITIAL_OUTPUT

    def charge(self, tokens: float) -> None:
        """Counts tokens as served; a negative number gives tokens back."""
        self.tag += tokens / self.weight

    def join(self, tag: float) -> None:
        """Starts to compete with parties of whom the least served has this tag."""
        self.tag = max(self.tag, tag)

    def learn_output(self, tokens: int) -> None:
        """One of its requests ended after so many decode tokens."""
        self.expected_output += OUTPUT_MEMORY * (tokens - self.expected_output)


def split(tokens: int, first: Share, second: Share) -> tuple[int, int]:
    """Divides tokens so that both tags come as close as they can.

    Returns:
        Tokens of the first and of the second; they add up to `tokens`.
    """
    lead = second.tag - first.tag + tokens / second.weight
    level = lead / (1 / first.weight + 1 / second.weight)
    mine = min(max(round(level), 0), tokens)
    return mine, tokens - mine
