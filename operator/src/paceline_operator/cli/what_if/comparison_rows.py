"""A comparison as rows of words, for tables of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.cli import wording
from paceline_operator.simulator.what_if.comparison import Comparison, Spread, Variant
from paceline_operator.simulator.what_if.figures import Figures

_HELD = {True: "held", False: "missed"}
NO_SAMPLES = "no samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        label: What it is.
        values: Of each variant, old first.
        change: From the old to the new one, empty where nothing can be said.
        held: Of each variant whether an objective is held, None without samples and for a figure
            that is none.
    """

    label: str
    values: tuple[str, ...]
    change: str = ""
    held: tuple[bool | None, ...] = ()


def rows(comparison: Comparison) -> tuple[Row, ...]:
    """All of them."""
    variants = comparison.variants
    return (
        *(_objective(objective, variants) for objective in _objectives(variants)),
        _share("requests within all objectives", variants, lambda run: run.goodput),
        _share("worst 5 minutes of that", variants, lambda run: run.worst_5min),
        _amount("replica-hours", variants, lambda run: run.replica_hours, 2),
        _cost(variants),
        _amount("replicas, mean", variants, lambda run: run.replicas_mean, 1),
        _amount("replicas, most wanted", variants, lambda run: run.replicas_peak),
        _amount("moves of replicas", variants, lambda run: run.replica_moves),
        _amount("reversals of replicas in 10 min", variants, lambda run: run.replica_reversals),
        _amount("moves of the token budget", variants, lambda run: run.budget_moves),
        _amount("reversals of the budget in 10 min", variants, lambda run: run.budget_reversals),
        _amount("moves of the step time", variants, lambda run: run.step_time_moves),
        _amount(
            "reversals of the step time in 10 min", variants, lambda run: run.step_time_reversals
        ),
        _amount("requests refused", variants, lambda run: run.refused),
        _amount("requests without a whole answer", variants, lambda run: run.unserved),
        _amount("whole answers that were late", variants, lambda run: run.late),
    )


def _objectives(variants: tuple[Variant, ...]) -> list[Objective]:
    """Of the new spec, then those that only the old one has."""
    found = {o.name: o for variant in reversed(variants) for o in reversed(variant.objectives)}
    newest = [o.name for o in variants[-1].objectives]
    others = [name for name in found if name not in newest]
    known = {o.name: o for variant in variants for o in variant.objectives}
    return [known[name] for name in (*newest, *others)]


def _objective(objective: Objective, variants: tuple[Variant, ...]) -> Row:
    own = [_own(variant, objective) for variant in variants]
    found = [None if o is None else v.attained(o) for o, v in zip(own, variants, strict=True)]
    held = tuple(
        None if o is None or f is None else f.mean >= o.share
        for o, f in zip(own, found, strict=True)
    )
    is_same = all(o == objective for o in own)
    terms = [] if is_same else [_terms(o) for o in own if o is not None]
    label = f"{objective.name} ({' -> '.join(terms) or _terms(objective)})"
    values = tuple(map(_attained, own, found))
    return Row(
        label=label,
        values=values,
        change=_points(found) if is_same else "",
        held=held,
    )


def _attained(own: Objective | None, found: Spread | None) -> str:
    if own is None:
        return wording.NONE
    return NO_SAMPLES if found is None else f"{_percent(found)} {_HELD[found.mean >= own.share]}"


def _own(variant: Variant, objective: Objective) -> Objective | None:
    return next((o for o in variant.objectives if o.name == objective.name), None)


def _terms(objective: Objective) -> str:
    tier = "" if objective.tier == "interactive" else f", {objective.tier.value} tier"
    target = wording.latency(objective.target_ms)
    return f"{objective.metric.value} p{objective.percentile} {target}{tier}"


def _share(
    label: str, variants: tuple[Variant, ...], figure: Callable[[Figures], float | None]
) -> Row:
    found = [variant.spread_of_known(figure) for variant in variants]
    values = tuple(wording.NONE if spread is None else _percent(spread) for spread in found)
    return Row(label=label, values=values, change=_points(found))


def _amount(
    label: str,
    variants: tuple[Variant, ...],
    figure: Callable[[Figures], float],
    digits: int = 0,
) -> Row:
    found = [variant.spread(figure) for variant in variants]
    values = tuple(_spread(spread, digits) for spread in found)
    return Row(label=label, values=values, change=_growth(found, digits))


def _cost(variants: tuple[Variant, ...]) -> Row:
    found = [variant.cost for variant in variants]
    values = tuple(wording.NONE if cost is None else _spread(cost, 2) for cost in found)
    known = [cost for cost in found if cost is not None]
    return Row(
        label="cost",
        values=values,
        change=_growth(known, 2) if len(known) == len(found) else "",
    )


def _percent(spread: Spread) -> str:
    if f"{100 * spread.least:.1f}" == f"{100 * spread.most:.1f}":
        return f"{100 * spread.mean:.1f} %"
    return f"{100 * spread.mean:.1f} % ({100 * spread.least:.1f} to {100 * spread.most:.1f})"


def _spread(spread: Spread, digits: int) -> str:
    mean, least, most = (f"{v:,.{digits}f}" for v in (spread.mean, spread.least, spread.most))
    return mean if least == most else f"{mean} ({least} to {most})"


def _points(found: list[Spread | None]) -> str:
    known = [spread for spread in found if spread is not None]
    if len(known) < 2 or len(known) < len(found):
        return ""
    points = 100 * (known[1].mean - known[0].mean)
    return "=" if abs(points) < 0.05 else f"{points:+.1f} points"


def _growth(found: list[Spread], digits: int) -> str:
    if len(found) < 2:
        return ""
    before, after = found[0].mean, found[1].mean
    if f"{before:.{digits}f}" == f"{after:.{digits}f}":
        return "="
    if before >= 10:
        return f"{100 * (after - before) / before:+.0f} %"
    return f"{after - before:+,.{digits}f}"
