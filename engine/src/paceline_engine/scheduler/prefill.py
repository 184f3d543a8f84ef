"""What the decodes of a step leave, divided between prompts."""

from __future__ import annotations

from paceline_engine.request import Tier
from paceline_engine.scheduler.admission import Admission
from paceline_engine.scheduler.plan import StepPlan
from paceline_engine.scheduler.roster import Roster
from paceline_engine.scheduler.sequence import Sequence


class Prefill:
    """Fills a step with prompts: those being computed, then whoever may come in.

    Where both tiers want tokens they are divided by weight; where several tenants of a tier
    do, evenly, the one whose turn it is in the queue among them. So a long prompt never is a
    wall, however little a step may hold. What nobody takes of its part goes to the others.

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
        tiers = {sequence.request.tier for sequence in prefilling}
        tiers.update(tier for tier in Tier if self._queue.count(tier))
        if len(tiers) > 1:
            self._fill(plan, prefilling, self._queue.split(plan.room()))
        self._fill(plan, prefilling, dict.fromkeys(Tier, plan.left))

    def _fill(self, plan: StepPlan, prefilling: list[Sequence], allowance: dict[Tier, int]) -> None:
        self._give_parts(plan, prefilling, allowance)
        for sequence in prefilling:
            self._extend(sequence, plan, allowance)
        while plan.room() and not plan.is_short:
            if (admitted := self._admit(plan, prefilling, allowance)) is None:
                return
            if not self._extend(admitted, plan, allowance):
                return  # its context alone uses the step's time up

    def _give_parts(
        self, plan: StepPlan, prefilling: list[Sequence], allowance: dict[Tier, int]
    ) -> None:
        """Gives each tenant its even part, where there are several in a tier."""
        for tier in Tier:
            mine = [each for each in prefilling if each.request.tier is tier]
            head = self._queue.head_of(tier, plan.now_s)
            tenants = {each.request.tenant for each in (*mine, *([head] if head else ()))}
            if len(tenants) < 2:
                continue
            part = max(1, min(allowance[tier], plan.room()) // len(tenants))
            parts = dict.fromkeys(tenants, part)
            for sequence in mine:
                self._extend_within(sequence, plan, allowance, parts)
            if head and plan.room() and not plan.is_short and allowance[tier] > 0:
                only = {each: allowance[each] if each is tier else 0 for each in Tier}
                if (admitted := self._admit(plan, prefilling, only)) is not None:
                    parts.setdefault(admitted.request.tenant, part)
                    self._extend_within(admitted, plan, allowance, parts)

    def _admit(
        self, plan: StepPlan, prefilling: list[Sequence], allowance: dict[Tier, int]
    ) -> Sequence | None:
        if (admitted := self._admission.next(plan, allowance)) is not None:
            prefilling.append(admitted)
            if admitted.has_prompt:
                self._roster.release_children(admitted.request_id)
        return admitted

    def _extend_within(
        self,
        sequence: Sequence,
        plan: StepPlan,
        allowance: dict[Tier, int],
        parts: dict[str, int],
    ) -> None:
        request = sequence.request
        most = min(allowance[request.tier], parts[request.tenant])
        taken = self._extend(sequence, plan, {request.tier: most})
        allowance[request.tier] -= taken
        parts[request.tenant] -= taken

    def _extend(self, sequence: Sequence, plan: StepPlan, allowance: dict[Tier, int]) -> int:
        request = sequence.request
        if taken := plan.add_prefill(sequence, allowance[request.tier]):
            allowance[request.tier] -= taken
            end = plan.end_of(sequence)
            self._queue.charge(request.tier, request.tenant, sequence.bill(end))
        return taken
