"""Runs of an old and a new spec side by side, and what follows from them in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.what_if.figures import Figures

SAME_SHARE = 0.01
"""Replica-hours that differ by no more than this share are called the same."""
WORSE_SHARE = 0.05
"""By how much the worst five minutes have to fall to be worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over several seeds."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A spec and how it did.

    Attributes:
        label: `old` or `new`.
        source: Where the spec comes from.
        objectives: Of the spec.
        cost_per_replica_hour: As the spec states it, None where it does not.
        runs: One for each seed.
        notes: What its engines were taken to be.
    """

    label: str
    source: str
    objectives: tuple[Objective, ...]
    cost_per_replica_hour: float | None
    runs: tuple[Figures, ...]
    notes: tuple[str, ...]

    def spread(self, figure: Callable[[Figures], float]) -> Spread:
        """A figure over the seeds."""
        return _spread([figure(run) for run in self.runs])

    def spread_of_known(self, figure: Callable[[Figures], float | None]) -> Spread | None:
        """A figure over those seeds that have it; None where none has."""
        values = [value for run in self.runs if (value := figure(run)) is not None]
        return _spread(values) if values else None

    def attained(self, objective: Objective) -> Spread | None:
        """Share of good samples of an objective, 0..1.

        None where there are no samples, or the spec has no objective of the name.
        """
        names = [each.name for each in self.objectives]
        if objective.name not in names:
            return None
        place = names.index(objective.name)
        return self.spread_of_known(lambda run: run.attained[place])

    def held(self, objective: Objective) -> bool | None:
        """Whether the mean attainment is what is wanted; None where there is none."""
        found = self.attained(objective)
        return None if found is None else found.mean >= objective.share

    @property
    def cost(self) -> Spread | None:
        """In the spec's own currency; None where it names no price."""
        price = self.cost_per_replica_hour
        return None if price is None else self.spread(lambda run: run.replica_hours * price)

    @property
    def missed(self) -> tuple[Objective, ...]:
        """Objectives whose mean attainment is below what is wanted."""
        return tuple(o for o in self.objectives if self.held(o) is False)

    @property
    def unproven(self) -> tuple[Objective, ...]:
        """Objectives without samples."""
        return tuple(o for o in self.objectives if self.held(o) is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFacts:
    """What was played.

    Attributes:
        source: Where the load comes from.
        span_s: Its length.
        requests: How many, on average over the seeds.
        prompt_mean: Tokens.
        output_mean: Tokens.
        scale: How many times as much as was recorded.
        is_reconstructed: Whether single requests were drawn from counters.
        notes: How it was made.
    """

    source: str
    span_s: float
    requests: float
    prompt_mean: float
    output_mean: float
    scale: float = 1.0
    is_reconstructed: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The whole answer.

    Attributes:
        name: Of the service.
        load: What was played.
        lead_s: Of its beginning, played once more in front and not scored.
        old: None where there is no old spec.
        new: The new spec.
        notes: Why there is no old one, and what else has to be said.
    """

    name: str
    load: LoadFacts
    lead_s: float
    old: Variant | None
    new: Variant
    notes: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Old first."""
        return (self.new,) if self.old is None else (self.old, self.new)


def verdict(comparison: Comparison) -> str:
    """One sentence: objectives, the worst five minutes where they fall, replica-hours, cost."""
    parts = (_objectives(comparison), _worst(comparison), f"and {_hours(comparison)}.")
    return ", ".join(part for part in parts if part)


def _spread(values: list[float]) -> Spread:
    """By rounding alone, a mean may come to lie outside of what it is a mean of."""
    least, most = min(values), max(values)
    return Spread(mean=min(max(fmean(values), least), most), least=least, most=most)


def _objectives(comparison: Comparison) -> str:
    new, old = comparison.new, comparison.old
    if not new.objectives:
        return "The new spec states no objective"
    said = _of_new(new)
    if old is None:
        return said
    not_met = (*new.missed, *new.unproven)
    if not not_met:
        if old.missed:
            return f"{said}; the old one misses {_and([o.name for o in old.missed])}"
        return f"{said}; with the old one {_lacking(old)}" if old.unproven else f"{said} as before"
    held = [o.name for o in not_met if old.held(o)]
    missed_before = [_miss(old, o) for o in old.missed]
    if held:
        return f"{said}; the old one meets {_and(held)}"
    return f"{said}; the old one misses {_and(missed_before)}" if missed_before else said


def _of_new(new: Variant) -> str:
    """What it misses, else meets, and of what nothing is known."""
    if not new.unproven:
        if not new.missed:
            return f"The new spec meets {_all(len(new.objectives))}"
        return f"The new spec misses {_and([_miss(new, o) for o in new.missed])}"
    met = [o.name for o in new.objectives if new.held(o)]
    if new.missed:
        said = f"The new spec misses {_and([_miss(new, o) for o in new.missed])}"
    elif met:
        said = f"The new spec meets {_and(met)}"
    else:
        return f"The new spec proves nothing, as {_lacking(new)}"
    return f"{said}; {_lacking(new)}, so nothing is proven of {_it(len(new.unproven))}"


def _lacking(variant: Variant) -> str:
    names = [o.name for o in variant.unproven]
    return f"{_and(names)} {'has' if len(names) == 1 else 'have'} no samples"


def _it(count: int) -> str:
    return "it" if count == 1 else "them"


def _worst(comparison: Comparison) -> str:
    if comparison.old is None:
        return ""
    old, new = (v.spread_of_known(lambda run: run.worst_5min) for v in comparison.variants)
    if old is None or new is None or old.mean - new.mean < WORSE_SHARE:
        return ""
    return (
        f"serves {100 * new.mean:.1f} % of requests within them in its worst five minutes instead "
        f"of {100 * old.mean:.1f} %"
    )


def _miss(variant: Variant, objective: Objective) -> str:
    found = variant.attained(objective)
    share = 0.0 if found is None else 100 * found.mean
    return f"{objective.name} ({share:.1f} % of {objective.percentile} %)"


def _hours(comparison: Comparison) -> str:
    new = comparison.new.spread(lambda run: run.replica_hours)
    if comparison.old is None:
        return f"needs {new.mean:.2f} replica-hours{_price(comparison)}"
    old = comparison.old.spread(lambda run: run.replica_hours)
    change = (new.mean - old.mean) / old.mean if old.mean else 0.0
    if abs(change) <= SAME_SHARE:
        return f"needs {new.mean:.2f} replica-hours, the same as before{_price(comparison)}"
    word = "more" if change > 0 else "fewer"
    return (
        f"needs {new.mean:.2f} replica-hours instead of {old.mean:.2f} "
        f"({100 * abs(change):.0f} % {word}){_price(comparison)}"
    )


def _price(comparison: Comparison) -> str:
    new = comparison.new.cost
    if new is None:
        return ""
    old = None if comparison.old is None else comparison.old.cost
    return f" at {new.mean:.2f}" + ("" if old is None else f" instead of {old.mean:.2f}")


def _all(count: int) -> str:
    return {1: "its objective", 2: "both objectives"}.get(count, f"all {count} objectives")


def _and(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
