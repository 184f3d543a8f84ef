"""The loads of the trial."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from e2e.load import options
from e2e.load.plan import Plan

SEED = 23
MIX = "chat:0.7:700-1300:24-48,long:0.3:1800-2400:12-24"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """How long each part lasts.

    Attributes:
        rate: Requests per second of the calm parts.
        levels: (phase, level, seconds) of the part without faults.
        fault_level: Level of the load from then on.
        length_s: Of the whole; longer where faults take longer.
        spare_s: By how much it may be longer.
    """

    rate: float
    levels: tuple[tuple[str, float, float], ...]
    fault_level: float = 1.5
    length_s: float
    spare_s: float = 0.0

    @property
    def judged_s(self) -> float:
        """Length of the part that is held against the simulator."""
        return sum(seconds for _, _, seconds in self.levels)

    @property
    def text(self) -> str:
        """In the load generator's words."""
        last_s = self.length_s + self.spare_s - self.judged_s
        last = (("faults", self.fault_level, last_s),) if last_s > 0 else ()
        parts = (*self.levels, *last)
        return ",".join(f"{phase}:{level:g}:{seconds:g}" for phase, level, seconds in parts)

    def arguments(self, url: str, model: str) -> list[str]:
        """Arguments of `python -m e2e.load`."""
        return [
            *("--url", url, "--model", model, "--route", "completions", "--plan", "stages"),
            *("--rate", f"{self.rate:g}", "--stages", self.text, "--mix", MIX),
            *("--vocabulary", "bytes", "--seed", str(SEED), "--json"),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Those of one run.

    Attributes:
        direct: With faults after its first part.
        by_prometheus: Without.
    """

    direct: Stages
    by_prometheus: Stages


FULL = Loads(
    direct=Stages(
        rate=2.0,
        levels=(("calm", 1, 90), ("step", 3.5, 120), ("peak", 5, 60), ("fall", 1, 210)),
        length_s=900.0,
        spare_s=300.0,
    ),
    by_prometheus=Stages(
        rate=2.0,
        levels=(("calm", 1, 45), ("step", 3, 90), ("fall", 1, 75)),
        length_s=210.0,
    ),
)
SHORT = Loads(
    direct=Stages(
        rate=2.0,
        levels=(("calm", 1, 20), ("step", 3, 40), ("fall", 1, 20)),
        length_s=100.0,
        spare_s=500.0,
    ),
    by_prometheus=Stages(rate=2.0, levels=(("calm", 1, 20), ("step", 3, 50)), length_s=70.0),
)
"""To see that everything works; its figures say little."""


@cache
def plan_of(stages: Stages) -> Plan:
    """Every request of a load, as the generator will send it."""
    plan, _, _ = options.read(stages.arguments("http://unused", "unused"))
    return plan
