"""What the decodes of a step leave, divided between prompts."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from paceline_operator.simulator.engine.admission import Admission
from paceline_operator.simulator.engine.plan import StepPlan
from paceline_operator.simulator.engine.sequence import BATCH_TIER, INTERACTIVE_TIER, Sequence
from paceline_operator.simulator.engine.share import Shares
from paceline_operator.simulator.engine.waiting import Waiting

_Prompts = tuple[list[Sequence], list[Sequence]]
_rank = attrgetter("rank")


class Prefill:
    """Fills a step with prompts: those being computed, then whoever may come in.

    Where both tiers want tokens they are divided by weight; what one does not take of its part
    goes to the other.

    Args:
        waiting: Who waits.
        admission: Lets them in.
        shares: What the tiers were served.
    """

    def __init__(self, waiting: Waiting, admission: Admission, shares: Shares) -> None:
        self._waiting = waiting
        self._admission = admission
        self._shares = shares

    def add(self, plan: StepPlan, prefilling: Iterable[Sequence]) -> None:
        """Divides what is left of the step.

        Args:
            plan: The step, with all its decodes.
            prefilling: Running requests with known text to compute.
        """
        prompts: _Prompts = ([], [])
        for each in sorted(prefilling, key=_rank):
            prompts[each.tier].append(each)
        wants = prompts[INTERACTIVE_TIER] or prompts[BATCH_TIER]
        if not wants and self._admission.is_full:
            if plan.room() and not plan.is_short:
                self._admission.next(plan, [plan.left, plan.left])
            return
        count = self._waiting.count
        if all(prompts[tier] or count[tier] for tier in (INTERACTIVE_TIER, BATCH_TIER)):
            self._fill(plan, prompts, self._shares.split(plan.room()))
        self._fill(plan, prompts, [plan.left, plan.left])

    def _fill(self, plan: StepPlan, prompts: _Prompts, allowance: list[int]) -> None:
        for ready in prompts:
            while ready and self._share_out(ready, plan, allowance):
                pass
        while plan.room() and not plan.is_short:
            admitted = self._admission.next(plan, allowance)
            if admitted is None:
                return
            prompts[admitted.tier].append(admitted)
            if not self._extend(admitted, plan, allowance, plan.left):
                return

    def _share_out(self, ready: list[Sequence], plan: StepPlan, allowance: list[int]) -> bool:
        """Takes what a tier may have of its prompts, in their order; whether that was any."""
        before = plan.left
        left = min(allowance[ready[0].tier], plan.room())
        for each in ready:
            if left <= 0:
                break
            left -= self._extend(each, plan, allowance, left)
        return plan.left < before

    def _extend(self, sequence: Sequence, plan: StepPlan, allowance: list[int], most: int) -> int:
        tier = sequence.tier
        taken = plan.extend(sequence, min(allowance[tier], most))
        if taken:
            allowance[tier] -= taken
            self._shares.bill(sequence, plan.end_of(sequence))
        return taken
