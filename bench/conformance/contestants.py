"""Who steers the fleet in a cell: baselines, oracle, ours and ours without a part."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench.conformance import bars
from bench.conformance.load_case import LoadCase
from bench.conformance.policies import oracle
from bench.conformance.policies.ablations import ABLATIONS, Ablated
from bench.conformance.policies.catalogue import BASELINES, find_baseline
from bench.conformance.policies.oracle import Binding, Oracle
from bench.conformance.policies.site import ReplicaBounds, Site
from bench.conformance.policies.static import Static
from bench.conformance.tuning import Tuning
from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.controller import Controller
from paceline_operator.simulator.step_budget import StepBudget

MOST_REPLICAS = 24
DOWN_WINDOW_S = 300.0
SCRAPE_S = 5.0
"""Orders are given at a scrape: the oracle gives its own one earlier."""
STATIC_MEAN = "static-mean"
RIVALS: tuple[str, ...] = (bars.STATIC_PEAK, STATIC_MEAN, *(each.name for each in BASELINES))
OURS: tuple[str, ...] = (bars.OURS, *ABLATIONS)
ALL: tuple[str, ...] = (*OURS, bars.ORACLE, bars.UNBOUND_ORACLE, *RIVALS)
SETTINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What all contestants of a cell meet.

    Attributes:
        case: The load.
        tuning: What hindsight knows of it.
        cold_start_s: From a pod made to one that serves.
        seed: Of the load.
    """

    case: LoadCase
    tuning: Tuning
    cold_start_s: float
    seed: int

    @property
    def site(self) -> Site:
        """What baselines are set up with."""
        service = self.case.service
        return Site(
            bounds=ReplicaBounds(least=1, most=MOST_REPLICAS),
            ttft_ms=service.ttft_ms,
            itl_ms=service.itl_ms,
            running_seqs=service.max_num_seqs,
            budget_ceiling=service.max_num_batched_tokens,
        )

    @property
    def policy(self) -> Policy:
        """Ours: the defaults that the operator ships, no profile, nothing tuned to the load."""
        service = self.case.service
        return Policy(
            objectives=service.objectives,
            scaling_mode=Mode.AUTO,
            min_replicas=1,
            max_replicas=MOST_REPLICAS,
            down_window_s=DOWN_WINDOW_S,
            batch_max=service.max_num_batched_tokens,
            batch_initial=service.max_num_batched_tokens,
            max_num_seqs=service.max_num_seqs,
        )


def step_budget(policy: str) -> StepBudget | None:
    """The rule inside the engines, where the contestant has one."""
    return next((each.step_budget for each in BASELINES if each.name == policy), None)


def starts_tuned(policy: str) -> bool:
    """Whether engines start with the budget that hindsight chose, since nobody moves it."""
    if step_budget(policy) is not None:
        return False
    return policy in RIVALS or policy in {
        bars.WITHOUT_BUDGET, bars.ORACLE, bars.UNBOUND_ORACLE,
    }  # fmt: skip


def first_replicas(policy: str, tuning: Tuning) -> int:
    """Ready when the load begins: a fleet that nobody scales is there as it stays."""
    fixed = {bars.STATIC_PEAK: tuning.peak_replicas, STATIC_MEAN: tuning.mean_replicas}
    return fixed.get(policy, tuning.first_replicas)


def controller(policy: str, setting: int | None, contest: Contest) -> Controller:
    """A new one.

    Raises:
        KeyError: There is no contestant of that name.
    """
    if policy == bars.OURS:
        return AutopilotController(contest.policy)
    if policy in ABLATIONS:
        return Ablated(contest.policy, ABLATIONS[policy])
    if policy == bars.STATIC_PEAK:
        return Static(replicas=contest.tuning.peak_replicas)
    if policy == STATIC_MEAN:
        return Static(replicas=contest.tuning.mean_replicas)
    if policy in {bars.ORACLE, bars.UNBOUND_ORACLE}:
        return _oracle(contest, bound=policy == bars.ORACLE)
    baseline = find_baseline(policy)
    value = None if setting is None else baseline.sweep[setting]
    return baseline.controller(contest.site, value)


def _oracle(contest: Contest, *, bound: bool) -> Controller:
    case = contest.case
    key = f"{contest.cold_start_s:.0f}"
    headroom = contest.tuning.headroom.get(key, 1.0)
    binding = Binding(
        cold_start_s=contest.cold_start_s + SCRAPE_S if bound else 0.0,
        down_window_s=DOWN_WINDOW_S if bound else 0.0,
    )
    work = oracle.by_law(case.service.accelerator.law, contest.tuning.budget)
    requests = case.play(random.Random(contest.seed))
    busy = oracle.offered(requests, work, binding.slot_s, case.faults)
    return Oracle(oracle.plan(busy, headroom, binding, contest.site.bounds))
