"""Spec and facts to the make of a simulated fleet, and to the policy that steers it."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.api.choice import Mode, RoutingMode
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.policy import Policy, initial_tunables, policy_from_spec
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.fleet.fleet_config import FleetConfig, Routing, RoutingKind
from paceline_operator.simulator.queue_limits import by_objectives
from paceline_operator.simulator.what_if.engine_facts import EngineFacts

LONGEST_MODEL_LEN = 1 << 24
"""Where the spec sets none: the schema's most, so that no request is too long."""
DEFAULT_BLOCK_TOKENS = 16
COLD_START_JITTER = 0.1
_ROUTED = {
    RoutingMode.PROXY: RoutingKind.LEAST_CONNECTIONS,
    RoutingMode.SERVICE: RoutingKind.RANDOM,
}


def steering_policy(spec: InferenceServiceSpec, facts: EngineFacts) -> Policy:
    """What steers the fleet: the spec's policy, which knows the cold start from before.

    Without a calendar: a load that is played says nothing of the time of day.
    """
    return replace(
        policy_from_spec(spec),
        cold_start_prior_s=facts.cold_start_s,
        schedules=(),
        freezes=(),
    )


def left_out(spec: InferenceServiceSpec) -> tuple[str, ...]:
    """What the spec says that is not played, one sentence each."""
    found = []
    if spec.scaling.schedules or spec.freeze_windows:
        found.append("Schedules and freeze windows are left out: the load has no time of day.")
    if spec.engine.args:
        found.append(f"Flags in engine.args are left out: {' '.join(spec.engine.args)}.")
    return tuple(found)


def fleet_config(
    spec: InferenceServiceSpec, facts: EngineFacts, running: int | None = None
) -> FleetConfig:
    """The fleet a spec asks for.

    Args:
        spec: The spec.
        facts: What it does not say.
        running: Replicas that serve already, None for those the spec begins with.
    """
    policy = steering_policy(spec, facts)
    return FleetConfig(
        engine=_engine(spec, policy, facts),
        objectives=policy.objectives,
        initial_replicas=first_replicas(policy, running),
        cold_start_s=facts.cold_start_s,
        cold_start_jitter=COLD_START_JITTER,
        routing=Routing(kind=_ROUTED[spec.routing.mode]),
        drain_s=float(spec.rollout.drain_seconds),
    )


def first_replicas(policy: Policy, running: int | None) -> int:
    """Replicas at the beginning: the spec's number, in `Auto` what runs, within its limits."""
    asked = 1 if policy.replicas is None else policy.replicas
    if policy.scaling_mode is not Mode.AUTO:
        return asked
    most = policy.max_replicas or asked
    return min(most, max(1, policy.min_replicas, asked, running or 0))


def _engine(spec: InferenceServiceSpec, policy: Policy, facts: EngineFacts) -> EngineConfig:
    cache, starting = spec.engine.kv_cache, initial_tunables(policy)
    block_size = cache.block_size or DEFAULT_BLOCK_TOKENS
    return EngineConfig(
        law=facts.law,
        num_kv_blocks=max(1, facts.kv_tokens // block_size),
        max_model_len=spec.engine.max_model_len or LONGEST_MODEL_LEN,
        max_num_batched_tokens=policy.batch_max,
        max_num_seqs=policy.max_num_seqs,
        initial_batched_tokens=starting.max_num_batched_tokens,
        initial_running_seqs=starting.max_num_running_seqs,
        block_size=block_size,
        budget_step=policy.budget_step,
        prefix_caching=cache.prefix_caching is not False,
        queue_limits_s=by_objectives(policy.objectives),
    )
