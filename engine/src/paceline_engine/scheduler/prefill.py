"""What the decodes of a step leave, divided between prompts."""

from __future__ import annotations

from collections import Counter
from math import inf

from paceline_engine.request import Tier
from paceline_engine.scheduler.admission import Admission
from paceline_engine.scheduler.plan import StepPlan
from paceline_engine.scheduler.roster import Roster
from paceline_engine.scheduler.sequence import Sequence
from paceline_engine.scheduler.share import divide


class Prefill:
    """Fills a step with prompts: those being computed, then whoever may come in.

    Where both tiers want tokens they are divided by weight; so they are where several tenants
    of a tier do, the one whose turn it is in the queue among them. So a long prompt never is
    a wall, however little a step may hold. What one does not take of its part goes to the
    others, by weight too.

    Args:
        roster: Who runs and who waits.
        admission: Lets them in.
    """

    def __init__(self, roster: Roster, admission: Admission) -> None:
        self._roster = roster
        self._queue = roster.queue
        self._admission = admission

    def add(self, plan: StepPlan, prefilling: list[Sequence]) -> None:
        """Divides what is left of the step.

        Args:
            plan: The step, with all its decodes.
            prefilling: Running requests with known text to compute; grows.
        """
        if not prefilling and self._admission.is_full:
            if plan.room() and not plan.is_short:
                self._admission.next(plan, dict.fromkeys(Tier, plan.left))
            return
        tiers = {sequence.request.tier for sequence in prefilling}
        tiers.update(tier for tier in Tier if self._queue.count(tier))
        if len(tiers) > 1:
            self._fill(plan, prefilling, self._queue.split(plan.room()))
        self._fill(plan, prefilling, dict.fromkeys(Tier, plan.left))

    def _fill(self, plan: StepPlan, prefilling: list[Sequence], allowance: dict[Tier, int]) -> None:
        for tier in Tier:
            self._make_place(tier, plan, prefilling, allowance)
        for tier in Tier:
            while self._share_out(tier, plan, prefilling, allowance):
                pass
        while plan.room() and not plan.is_short:
            if (admitted := self._admit(plan, prefilling, allowance)) is None:
                return
            if not self._extend(admitted, plan, allowance, plan.left):
                return  # its context alone uses the step's time up

    def _make_place(
        self, tier: Tier, plan: StepPlan, prefilling: list[Sequence], allowance: dict[Tier, int]
    ) -> None:
        """Lets in whose turn it is, for its tenant's part, where other tenants prefill."""
        head, wanted = self._queue.head_of(tier, plan.now_s), _wanted(tier, plan, prefilling)
        if head is None or not wanted.keys() - {head.request.tenant}:
            return
        tenant = head.request.tenant
        served = self._share_out(tier, plan, prefilling, allowance, waits=tenant)
        if (part := served.get(tenant, 0)) > 0 and plan.room() and not plan.is_short:
            only = {each: allowance[each] if each is tier else 0 for each in Tier}
            if (admitted := self._admit(plan, prefilling, only)) is not None:
                self._extend(admitted, plan, allowance, part)

    def _share_out(
        self,
        tier: Tier,
        plan: StepPlan,
        prefilling: list[Sequence],
        allowance: dict[Tier, int],
        waits: str | None = None,
    ) -> dict[str, int]:
        """Divides what a tier may have between its tenants, by weight.

        Args:
            tier: Which.
            plan: The step.
            prefilling: Running requests with known text to compute.
            allowance: What each tier may have.
            waits: A tenant for whom a request may come in, that wants any number.

        Returns:
            What is left of the part of each that had one; empty if there was nothing to divide.
        """
        wanted: dict[str, float] = dict(_wanted(tier, plan, prefilling))
        if waits is not None:
            wanted[waits] = inf
        room = min(allowance[tier], plan.room())
        if not wanted or room <= 0:
            return {}
        shares = {tenant: self._queue.share(tier, tenant) for tenant in wanted}
        parts, before = divide(room, wanted, shares), plan.left
        for tenant in parts:
            for each in prefilling:
                if each.request.tier is tier and each.request.tenant == tenant:
                    parts[tenant] -= self._extend(each, plan, allowance, parts[tenant])
        return parts if waits is not None or plan.left < before else {}

    def _admit(
        self, plan: StepPlan, prefilling: list[Sequence], allowance: dict[Tier, int]
    ) -> Sequence | None:
        if (admitted := self._admission.next(plan, allowance)) is not None:
            prefilling.append(admitted)
            if admitted.has_prompt:
                self._roster.release_children(admitted.request_id)
        return admitted

    def _extend(
        self, sequence: Sequence, plan: StepPlan, allowance: dict[Tier, int], most: int
    ) -> int:
        request = sequence.request
        taken = plan.add_prefill(sequence, min(allowance[request.tier], most))
        if taken:
            allowance[request.tier] -= taken
            end = plan.end_of(sequence)
            self._queue.charge(request.tier, request.tenant, sequence.bill(end))
        return taken


def _wanted(tier: Tier, plan: StepPlan, prefilling: list[Sequence]) -> Counter[str]:
    """Tokens that each tenant of a tier could still use in a step."""
    wanted: Counter[str] = Counter()
    for each in prefilling:
        if each.request.tier is tier and (rest := len(each.token_ids) - plan.end_of(each)) > 0:
            wanted[each.request.tenant] += rest
    return wanted
