"""How many replicas a load would need by the model of an engine's capacity. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bench.conformance.load_case import Service
from bench.conformance.shape import Shape
from paceline_operator.autopilot.plant.capacity import Terms, attainable, capacity_rps, steady_state
from paceline_operator.autopilot.plant.plant import Plant, build_plant
from paceline_operator.autopilot.plant.prior import prior_of
from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.autopilot.vocabulary.memory import Memory

BUDGETS = (256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192)


def replica_rps(service: Service, workload: Workload) -> float:
    """Requests per second of one replica within both targets, at the best budget."""
    plant = build_plant(Memory(), prior_of(service.profile), workload)
    within = [budget for budget in BUDGETS if budget <= service.max_num_batched_tokens]
    found = [_at_budget(service, plant, budget) for budget in within]
    held = [rps for rps, full_ms in found if full_ms <= service.itl_ms]
    return max(held, default=found[0][0])


def capacity_by_budget(
    service: Service, workload: Workload, budgets: Iterable[int], within_ms: float
) -> dict[int, float]:
    """Requests per second of one replica at each budget whose full step takes so long at most."""
    plant = build_plant(Memory(), prior_of(service.profile), workload)
    found = {budget: _at_budget(service, plant, budget) for budget in budgets}
    return {budget: rps for budget, (rps, full_ms) in found.items() if full_ms <= within_ms}


def replicas(service: Service, shape: Shape) -> tuple[float, float]:
    """Replicas for the load's five-minute stretches: mean and most, in fractions."""
    needs = [part.rps / replica_rps(service, part.workload) for part in shape.stretches]
    return sum(needs) / len(needs), max(needs)


def _at_budget(service: Service, plant: Plant, budget: int) -> tuple[float, float]:
    """The capacity, and the time of a full step there."""
    terms = Terms(
        budget=budget,
        running_seqs=service.max_num_seqs,
        ttft_ms=service.ttft_ms,
        itl_ms=service.itl_ms,
        kv_capacity_tokens=service.accelerator.kv_capacity_tokens,
    )
    held = attainable(plant, terms)
    rps = capacity_rps(plant, held)[0]
    return rps, steady_state(plant, held, rps).full_ms
