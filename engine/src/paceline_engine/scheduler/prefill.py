"""What the decodes of a step leave, divided between prompts."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from paceline_engine.request import Tier
from paceline_engine.scheduler.admission import Admission
from paceline_engine.scheduler.plan import StepPlan
from paceline_engine.scheduler.prompts import Prompts
from paceline_engine.scheduler.roster import Roster
from paceline_engine.scheduler.rotation import Rotation
from paceline_engine.scheduler.sequence import Sequence


class Prefill:
    """Fills a step with prompts: those being computed, then whoever may come in.

    Where both tiers want tokens they are divided by weight; so they are where several tenants
    of a tier do, the one whose turn it is in the queue among them. So a long prompt never is
    a wall, however little a step may hold. What one does not take of its part goes to the
    others, by weight too. Where there are more tenants than the step has parts worth a chunk they
    take turns.

    Args:
        roster: Who runs and who waits.
        admission: Lets them in.
    """

    def __init__(self, roster: Roster, admission: Admission) -> None:
        self._roster = roster
        self._queue = roster.queue
        self._admission = admission
        self._rotations = {tier: Rotation() for tier in Tier}

    def add(self, plan: StepPlan, prefilling: Iterable[Sequence]) -> None:
        """Divides what is left of the step.

        Args:
            plan: The step, with all its decodes.
            prefilling: Running requests with known text to compute.
        """
        prompts = Prompts(prefilling)
        tiers = [tier for tier in Tier if prompts.by_tenant(tier)]
        if not tiers and self._admission.is_full:
            if plan.room() and not plan.is_short:
                self._admission.next(plan, dict.fromkeys(Tier, plan.left))
            return
        for tier in tiers:
            self._rotations[tier].begin(prompts.by_tenant(tier))
        if all(tier in tiers or self._queue.count(tier) for tier in Tier):
            self._fill(plan, prompts, self._queue.split(plan.room()))
        self._fill(plan, prompts, dict.fromkeys(Tier, plan.left))

    def _fill(self, plan: StepPlan, prompts: Prompts, allowance: dict[Tier, int]) -> None:
        for tier in Tier:
            self._make_place(tier, plan, prompts, allowance)
        for tier in Tier:
            while self._share_out(tier, plan, prompts, allowance):
                pass
        while plan.room() and not plan.is_short:
            if (admitted := self._admit(plan, prompts, allowance)) is None:
                return
            if not self._extend(admitted, plan, allowance, plan.left):
                return  # its context alone uses the step's time up

    def _make_place(
        self, tier: Tier, plan: StepPlan, prompts: Prompts, allowance: dict[Tier, int]
    ) -> None:
        """Lets in whose turn it is, for its tenant's part, where other tenants prefill."""
        if (head := self._queue.head_of(tier, plan.now_s)) is None:
            return
        tenant = head.request.tenant
        if not prompts.wanted(tier, plan).keys() - {tenant}:
            return
        served = self._share_out(tier, plan, prompts, allowance, waits=tenant)
        if (part := served.get(tenant, 0)) > 0 and plan.room() and not plan.is_short:
            only = {each: allowance[each] if each is tier else 0 for each in Tier}
            if (admitted := self._admit(plan, prompts, only)) is not None:
                self._extend(admitted, plan, allowance, part)

    def _share_out(
        self,
        tier: Tier,
        plan: StepPlan,
        prompts: Prompts,
        allowance: dict[Tier, int],
        waits: str | None = None,
    ) -> dict[str, int]:
        """Divides what a tier may have between its tenants, by weight.

        One tenant more may want any number: one for whom a request may come in. Returned is
        what is left of each part; nothing if there was nothing to divide.
        """
        room, before = min(allowance[tier], plan.room()), plan.left
        wanted = prompts.wanted(tier, plan) if room > 0 else {}
        if not wanted:
            return {}
        if waits is not None:
            wanted[waits] = inf
        shares = {tenant: self._queue.share(tier, tenant) for tenant in wanted}
        parts = self._rotations[tier].divide(room, wanted, shares, first=waits)
        for tenant, part in parts.items():
            ready = prompts.by_tenant(tier).get(tenant, ())
            parts[tenant] = part - self._compute(ready, plan, allowance, part)
        return parts if waits is not None or plan.left < before else {}

    def _compute(
        self, ready: Iterable[Sequence], plan: StepPlan, allowance: dict[Tier, int], most: int
    ) -> int:
        """Takes up to so many tokens of a tenant's prompts, in their order; returns how many."""
        left = most
        for each in ready:
            if left <= 0:
                break
            left -= self._extend(each, plan, allowance, left)
        return most - left

    def _admit(
        self, plan: StepPlan, prompts: Prompts, allowance: dict[Tier, int]
    ) -> Sequence | None:
        if (admitted := self._admission.next(plan, allowance)) is not None:
            prompts.add(admitted)
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
            self._rotations[request.tier].note(request.tenant)
        return taken
