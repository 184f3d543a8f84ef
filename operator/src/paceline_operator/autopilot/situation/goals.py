"""Which objectives can be met, and the steps that they allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.measurement.attainment import ENOUGH_SAMPLES, LEAST_SAMPLES
from paceline_operator.autopilot.measurement.objectives import TAIL, binding_share, strictest_ms
from paceline_operator.autopilot.plant.capacity import (
    Terms,
    alone_e2e_ms,
    alone_ttft_ms,
    attainable,
)
from paceline_operator.autopilot.plant.plant import USABLE_SD, paced_budget
from paceline_operator.autopilot.situation.scene import Scene
from paceline_operator.autopilot.vocabulary.policy import Objective

CLEARLY_MET = 0.95
"""Share of an ITL target below which decoding alone counts as fast enough again."""


@dataclass(frozen=True, kw_only=True)
class Goals(Scene):
    """The scene, and what can be reached in it."""

    @cached_property
    def itl_objectives(self) -> tuple[Objective, ...]:
        """Objectives on gaps that one sequence alone holds; all, where none or nobody can say."""
        found = self.policy.of_metric(SloMetric.ITL, SloMetric.TPOT)
        if len(found) < 2 or not self.decoding_known:
            return found
        alone_ms = self.plant.decode_ms(1.0)
        return tuple(o for o in found if alone_ms <= o.target_ms) or found

    @cached_property
    def ttft_objectives(self) -> tuple[Objective, ...]:
        """Objectives on first tokens that an idle replica holds; all, where none or unknown."""
        found = self.policy.of_metric(SloMetric.TTFT)
        if len(found) < 2 or not self.model_trusted:
            return found
        return tuple(o for o in found if self.alone_ms(o) <= o.target_ms) or found

    @cached_property
    def e2e_objectives(self) -> tuple[Objective, ...]:
        """Objectives on whole answers that are not hopeless."""
        return tuple(o for o in self.policy.of_metric(SloMetric.E2E) if o not in self.e2e_hopeless)

    @cached_property
    def e2e_hopeless(self) -> tuple[Objective, ...]:
        """Those that are missed where a mean answer alone takes longer than nearly all may.

        Of a median that would prove nothing: half of the answers are shorter.
        """
        if not self.decoding_known or self.plant.workload.answers < ENOUGH_SAMPLES:
            return ()
        tail = (o for o in self.policy.of_metric(SloMetric.E2E) if o.percentile >= TAIL)
        return tuple(
            o for o in tail if o.target_ms < alone_e2e_ms(self.plant) and self.is_late((o,))
        )

    @cached_property
    def steering(self) -> tuple[Objective, ...]:
        """Objectives that the loops go by: of those of the policy the ones that can be met."""
        return (*self.ttft_objectives, *self.itl_objectives, *self.e2e_objectives)

    @cached_property
    def itl_target_ms(self) -> float | None:
        """Strictest target on gaps between tokens, those on their tail first."""
        return strictest_ms(self.itl_objectives)

    @cached_property
    def ttft_target_ms(self) -> float | None:
        """Strictest target on the first token, those on its tail first."""
        return strictest_ms(self.ttft_objectives)

    def alone_ms(self, objective: Objective) -> float:
        """First token of the longest prompt that an objective is about, on an idle replica."""
        terms = self._terms(self.settled_budget)
        return alone_ttft_ms(self.plant, replace(terms, ttft_share=objective.share))

    @cached_property
    def margin(self) -> float:
        """Share of the ITL target kept free."""
        return max(self.memory.margin, self.plant.reserve)

    @cached_property
    def step_time_target_ms(self) -> float | None:
        """Step time that engines are to keep by themselves; None where the budget does it.

        They leave room for the spread of single steps, so only what was learned is taken off.
        A target that decoding alone misses is not chased: prompts would pay for it in vain.
        """
        target_ms = self.itl_target_ms
        if target_ms is None or not self.policy.is_paced or self._is_hopeless(target_ms):
            return None
        return round((1 - self.memory.margin) * target_ms, 1)

    def _is_hopeless(self, itl_ms: float) -> bool:
        """Whether one sequence alone is known to miss a target, clearly met where it was before."""
        plant, was_so = self.plant, self.knobs.step_time_target_ms is None
        known = plant.decode.steps >= LEAST_SAMPLES and plant.decode_trusted_at(1.0)
        return known and plant.decode_ms(1.0) > (CLEARLY_MET * itl_ms if was_so else itl_ms)

    @property
    def is_paced(self) -> bool:
        """Whether engines size their steps by themselves, now or as soon as they are told to."""
        if self.policy.tuning_mode is not Mode.AUTO:
            return self.knobs.step_time_target_ms is not None
        return self.step_time_target_ms is not None

    @cached_property
    def cap(self) -> int | None:
        """Largest budget whose full steps keep within the ITL target.

        None where not even the smallest does; the ceiling without such an objective.
        """
        target = self.itl_target_ms
        if target is None:
            return self.ladder().ceiling
        allowed_ms = (1 - self.margin) * target
        return self.ladder().largest(lambda b: self.plant.full_ms(b) <= allowed_ms)

    @cached_property
    def cap_or_floor(self) -> int:
        """The cap, or the smallest budget where there is none."""
        return self.ladder().floor if self.cap is None else self.cap

    @cached_property
    def settled_budget(self) -> int:
        """Where the budget ends up: the cap; where no budget fits, the one that is.

        Where nobody moves it, it stays, and so does the step time that engines keep.
        """
        now, kept_ms = self.knobs.max_num_batched_tokens, self.knobs.step_time_target_ms
        if self.policy.tuning_mode is not Mode.AUTO:
            kept = None if kept_ms is None else paced_budget(self.plant, kept_ms, self.ladder())
            return now if kept is None else min(self.cap_or_floor, kept)
        if self.is_paced:
            return self.cap_or_floor
        return now if self.cap is None else self.cap

    @cached_property
    def model_trusted(self) -> bool:
        """Whether the model may be acted on around the cap."""
        return self.plant.trusted_at(self.cap_or_floor)

    @cached_property
    def model_usable(self) -> bool:
        """Whether it may be acted on where measurements point the same way."""
        return self.plant.uncertainty(self.cap_or_floor) <= USABLE_SD

    def terms(self, budget: int) -> Terms:
        """Conditions under which a replica works at a budget."""
        return replace(
            self._terms(budget),
            ttft_ms=self.ttft_target_ms,
            ttft_share=binding_share(self.ttft_objectives),
        )

    def _terms(self, budget: int) -> Terms:  # without an objective on first tokens
        seqs = self.memory.squeezed_seqs or self.knobs.max_num_running_seqs
        pools = [p.kv_capacity_tokens for p in self.fleet.serving if p.kv_capacity_tokens]
        return Terms(
            budget=budget,
            running_seqs=seqs,
            itl_ms=self.itl_target_ms,
            margin=self.margin,
            kv_capacity_tokens=min(pools, default=None),
        )

    @cached_property
    def attainable(self) -> tuple[float | None, float | None]:
        """TTFT and ITL targets that an idle replica meets; all, while nobody can say."""
        if not self.model_trusted:
            return self.ttft_target_ms, self.itl_target_ms
        found = attainable(self.plant, self.terms(self.settled_budget))
        return found.ttft_ms, found.itl_ms
