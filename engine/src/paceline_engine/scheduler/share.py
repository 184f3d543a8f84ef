"""Weighted shares in virtual time: who has been served how much for its weight.

Start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996) in the
form that suits token generation (Sheng et al.: "Fairness in Serving Large Language Models",
OSDI 2024): a party's tag grows by tokens served over its weight, the smallest tag goes first,
and who comes back after a pause takes up the tag of those at work, so that a pause earns
nothing.

Each running request is charged some decode tokens ahead of what it was served, as many for
everyone and never more than it may still draw; its end gives back what was not. So tags compare
where the parties will soon be: seats taken now count before their first tokens do, and what is
lacking is made up for with seats in proportion. Nothing is concluded from how long a party's
outputs were, so nothing can be feigned by tiny ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import isfinite
from typing import TypeVar

Charged = tuple[int, float]
"""What a share was charged ahead for one request: its lifts then, and tokens since the last."""
NOTHING_CHARGED: Charged = (0, 0.0)

PartyT = TypeVar("PartyT", bound=Hashable)

_ROUNDING = 1e-9


class Share:
    """What one party (a tier, or a tenant inside one) has been served.

    Args:
        weight: Tokens it gets for each of a party of weight 1 while both wait.

    Attributes:
        tag: Tokens charged over the weight: virtual time.
        lifts: Times that it joined behind the others and was put level with them. What was
            charged ahead before is forgiven by that; given back later it would be credit.

    Raises:
        ValueError: The weight is not a positive number.
    """

    __slots__ = ("lifts", "tag", "weight")

    def __init__(self, weight: float) -> None:
        if not (isfinite(weight) and weight > 0):
            raise ValueError(f"a share needs a positive weight, not {weight}")
        self.weight = weight
        self.tag = 0.0
        self.lifts = 0

    def charge(self, tokens: float) -> None:
        """Counts tokens as served; a negative number gives tokens back."""
        self.tag += tokens / self.weight

    def join(self, tag: float) -> None:
        """Starts to compete with parties of whom the least served has this tag."""
        if tag > self.tag:
            self.tag = tag
            self.lifts += 1

    def note(self, charged: Charged, tokens: float) -> Charged:
        """What was charged ahead, with some more tokens."""
        return self.lifts, self.refundable(charged) + tokens

    def refundable(self, charged: Charged) -> float:
        """Tokens of what was charged ahead that no lift has forgiven."""
        lifts, tokens = charged
        return tokens if lifts == self.lifts else 0.0


def split(tokens: int, first: Share, second: Share) -> tuple[int, int]:
    """Divides tokens so that both tags come as close as they can.

    Returns:
        Tokens of the first and of the second; they add up to `tokens`.
    """
    lead = second.tag - first.tag + tokens / second.weight
    level = lead / (1 / first.weight + 1 / second.weight)
    mine = min(max(round(level), 0), tokens)
    return mine, tokens - mine


def divide(
    tokens: int, wanted: Mapping[PartyT, float], shares: Mapping[PartyT, Share]
) -> dict[PartyT, int]:
    """Divides tokens by weight; what one does not want goes to the others, by weight too.

    Args:
        tokens: To be divided.
        wanted: Positive number of tokens each can use.
        shares: Of the same parties.

    Returns:
        At most what each wants, and rounded down, but one at least, so that nobody is at a
        standstill: so a little more than `tokens` in all where there are few; who has been
        served least for its weight stands first.
    """
    parts: dict[PartyT, int] = {}
    rest, weights = tokens, {party: shares[party].weight for party in wanted}
    while weights:
        level = rest / sum(weights.values())
        content = [party for party, weight in weights.items() if wanted[party] <= weight * level]
        for party in content or tuple(weights):
            part = wanted[party] if content else weights[party] * level
            parts[party] = max(1, int(part + _ROUNDING))
        if not content:
            break
        for party in content:
            rest -= parts[party]
            del weights[party]
    return {party: parts[party] for party in sorted(parts, key=lambda each: shares[each].tag)}
