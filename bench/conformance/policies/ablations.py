"""The product's own law with one part taken away, to see what that part is worth.

Parts go in three ways: by a switch of the policy, by hiding what the part looks at, or by
forgetting what the part has learned after each tick. The law's code is the product's throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Bursts, Memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.autopilot.vocabulary.window import Latency, Window
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.controller import Orders

FELT = (Latency.TTFT, Latency.ITL, Latency.TPOT, Latency.E2E)


def _same_policy(policy: Policy) -> Policy:
    return policy


def _all_seen(fleet: FleetObservation) -> FleetObservation:
    return fleet


def _all_kept(memory: Memory) -> Memory:
    return memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """What is taken away.

    Attributes:
        policy: Changes the policy.
        sees: Hides something of what is seen.
        keeps: Forgets something after each tick.
    """

    policy: Callable[[Policy], Policy] = _same_policy
    sees: Callable[[FleetObservation], FleetObservation] = _all_seen
    keeps: Callable[[Memory], Memory] = _all_kept


class Ablated:
    """The autopilot without a part.

    Args:
        policy: Of the whole autopilot.
        ablation: What is taken away.
    """

    def __init__(self, policy: Policy, ablation: Ablation) -> None:
        self._whole = AutopilotController(ablation.policy(policy))
        self._ablation = ablation

    @property
    def next_due_s(self) -> float:
        """As the whole one."""
        return self._whole.next_due_s

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """What it wants without the part."""
        orders = self._whole.decide(self._ablation.sees(fleet), now_s)
        self._whole.memory = self._ablation.keeps(self._whole.memory)
        return orders

    def disturbed(self, now_s: float) -> None:
        """Somebody else wrote replicas."""
        self._whole.disturbed(now_s)

    def restarted(self) -> None:
        """Another process goes on."""
        self._whole.restarted()


def without_tuning(policy: Policy) -> Policy:
    """The budget and the running cap stay as they were started."""
    return replace(policy, tuning_mode=Mode.OFF)


def by_budget(policy: Policy) -> Policy:
    """One budget for all steps in place of engines that size each for the ITL target."""
    return replace(policy, is_paced=False)


def with_replicas(replicas: int) -> Callable[[Policy], Policy]:
    """So many replicas from beginning to end."""
    return lambda policy: replace(policy, scaling_mode=Mode.OFF, replicas=replicas)


def with_profile(profile: str) -> Callable[[Policy], Policy]:
    """The true step law known beforehand."""
    return lambda policy: replace(policy, profile=profile)


def unfelt(fleet: FleetObservation) -> FleetObservation:
    """Without anything that requests felt: feed-forward alone is left."""
    return replace(fleet, slices=tuple(_without_latencies(window) for window in fleet.slices))


def unmodelled(fleet: FleetObservation) -> FleetObservation:
    """Without the steps' moments: no model can be learned, feedback alone is left."""
    return replace(fleet, slices=tuple(replace(window, steps={}) for window in fleet.slices))


def untrimmed(memory: Memory) -> Memory:
    """The margin under the ITL target stays where it began."""
    return replace(memory, margin=Memory().margin)


def uncorrected(memory: Memory) -> Memory:
    """The predicted capacity stays as predicted."""
    return replace(memory, capacity_factor=1.0)


def unlearned_bursts(memory: Memory) -> Memory:
    """Every surge is answered at once, however short the last ones were."""
    return replace(memory, bursts=Bursts())


def unregretting(memory: Memory) -> Memory:
    """A scale-in that was taken back may be made again."""
    return replace(memory, regret=None)


def _without_latencies(window: Window) -> Window:
    kept = {latency: h for latency, h in window.histograms.items() if latency not in FELT}
    return replace(window, histograms=kept, batch={}, slo={})


ABLATIONS: Mapping[str, Ablation] = {
    "ours-without-tuning": Ablation(policy=without_tuning),
    "ours-by-budget": Ablation(policy=by_budget),
    "ours-feed-forward-only": Ablation(sees=unfelt),
    "ours-feedback-only": Ablation(sees=unmodelled),
    "ours-without-trim": Ablation(keeps=untrimmed),
    "ours-without-correction": Ablation(keeps=uncorrected),
    "ours-without-bursts": Ablation(keeps=unlearned_bursts),
    "ours-without-regret": Ablation(keeps=unregretting),
}
"""Those that need nothing but the policy; `with_replicas` and `with_profile` need a figure."""
