"""Guarded least squares on step moments: the evidence of one step class, and what follows.

The sums that engines export are the normal equations of the step-time law, so nothing is
lost by adding them up. Old evidence fades, the prior does not: it bounds the uncertainty
of a direction that the load does not excite, which is where plain forgetting winds up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import sqrt

from paceline_operator.autopilot.plant.law import Law, StepLoad
from paceline_operator.autopilot.plant.linear import dot, quadratic, solve, solve_non_negative
from paceline_operator.autopilot.vocabulary.memory import FitMemory
from paceline_operator.autopilot.vocabulary.window import Moments

DECODE = "ndk"
PREFILL = "npdkx"
_SCALE = {"n": 1.0, "p": 1e3, "d": 1e1, "k": 1e5, "x": 1e6}

FORGET_PER_WINDOW = 0.99
IDLE_SHARE = 0.1
"""Share of the steps that come under steady load below which a window is an idle one."""
IDLE_RATE = 0.1
"""Speed of forgetting where hardly any come, against that under load."""
GATE = 9.0
GATE_SPREAD = 0.15
REOPEN_AFTER = 3
REOPEN_KEEP = 0.05
NOISE_FLOOR = 0.02
NOISE_PRIOR_STEPS = 5.0
MIN_STEPS = 5.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A law with its uncertainty.

    Attributes:
        variables: Letters of the regressors, in order.
        law: Most credible coefficients, none negative.
        precision: Evidence plus prior, in scaled units times the noise variance.
        noise_ms: Spread of one step around the law.
        noise_share: The same relative to the typical step.
        steps: Steps behind it.
    """

    variables: str
    law: Law
    precision: tuple[tuple[float, ...], ...]
    noise_ms: float
    noise_share: float
    steps: float

    def step_ms(self, load: StepLoad) -> float:
        """Predicted mean time of one step."""
        return self.law.step_ms(load)

    def relative_sd(self, load: StepLoad) -> float:
        """Uncertainty of that mean, as a share of it."""
        vector = [load.value(v) / _SCALE[v] for v in self.variables]
        variance = dot(vector, solve(self.precision, vector))
        return self.noise_ms * sqrt(max(0.0, variance)) / max(1e-9, self.step_ms(load))

    def coefficient_sd(self, variable: str) -> float:
        """Uncertainty of one coefficient, as a share of it."""
        unit = [float(v == variable) for v in self.variables]
        variance = dot(unit, solve(self.precision, unit))
        value = self.law.coefficient(variable) * _SCALE[variable]
        return self.noise_ms * sqrt(max(0.0, variance)) / max(1e-9, value)


def learn(fit: FitMemory, seen: Moments, variables: str, prior: Law) -> FitMemory:
    """Adds the steps of one window, unless they contradict everything known so far.

    A window whose residual lies far outside the spread is refused; after the third in a row
    the plant is taken to have changed and most of the old evidence is dropped.
    """
    if seen.count < 1 or seen.of("t") <= 0:
        return fit
    known = _known(fit, variables)
    if _surprising(known, seen, variables, prior):
        if known.rejected + 1 < REOPEN_AFTER:
            return replace(known, rejected=known.rejected + 1)
        known = shaken(known)
    return _added(_faded(known, _keep(known, seen)), seen, variables)


def shaken(fit: FitMemory) -> FitMemory:
    """The evidence that stays where what it was learned from is no longer the plant."""
    return replace(_faded(fit, REOPEN_KEEP), rejected=0)


def estimate(
    fit: FitMemory, variables: str, prior: Law, spread: float, *, scale_free: bool
) -> Estimate:
    """The law that evidence and prior together make most credible.

    Args:
        fit: Evidence.
        variables: `DECODE` or `PREFILL`.
        prior: Prior coefficients.
        spread: Prior standard deviation of each, as a share.
        scale_free: Whether the prior's scale is to be taken from the evidence.
    """
    known = _known(fit, variables)
    information = _square(known.information, len(variables))
    believed = _scaled(prior, variables)
    if scale_free and known.steps >= 1:
        believed = _rescaled(believed, information, known.target)
    typical_ms = _typical_ms(known, believed)
    noise_ms = NOISE_FLOOR * typical_ms
    for _ in range(2):
        precision, right = _posterior(information, known.target, believed, spread, noise_ms)
        found = solve_non_negative(precision, right)
        noise_ms = _noise_ms(known, information, found, typical_ms)
    return Estimate(
        variables=variables,
        law=_law(found, variables),
        precision=tuple(tuple(row) for row in precision),
        noise_ms=noise_ms,
        noise_share=noise_ms / typical_ms,
        steps=known.steps,
    )


def _known(fit: FitMemory, variables: str) -> FitMemory:
    """The evidence; none where it is of other variables, as another version left it, or of none."""
    nothing = _nothing(variables)
    sizes = len(fit.information), len(fit.target)
    is_like = sizes == (len(nothing.information), len(nothing.target))
    return fit if is_like and fit.steps >= 0 and fit.square >= 0 else nothing


def _nothing(variables: str) -> FitMemory:
    size = len(variables)
    return FitMemory(information=(0.0,) * (size * (size + 1) // 2), target=(0.0,) * size)


def _keep(fit: FitMemory, seen: Moments) -> float:
    """Share of the old evidence to keep: it gives way to new steps, not to the clock.

    Under load of any size forgetting has its full rate; an hour of single steps does not wash
    out what is known of full ones.
    """
    forget = 1.0 - FORGET_PER_WINDOW
    usual = max(1.0, forget * fit.steps)
    return 1.0 - forget * max(IDLE_RATE, min(1.0, seen.count / (IDLE_SHARE * usual)))


def _faded(fit: FitMemory, keep: float) -> FitMemory:
    return replace(
        fit,
        information=tuple(keep * value for value in fit.information),
        target=tuple(keep * value for value in fit.target),
        square=keep * fit.square,
        steps=keep * fit.steps,
    )


def _added(fit: FitMemory, seen: Moments, variables: str) -> FitMemory:
    pairs = combinations_with_replacement(variables, 2)
    cross = (seen.product(a, b) / _SCALE[a] / _SCALE[b] for a, b in pairs)
    onto = (1e3 * seen.product(v, "t") / _SCALE[v] for v in variables)
    return FitMemory(
        information=tuple(a + b for a, b in zip(fit.information, cross, strict=True)),
        target=tuple(a + b for a, b in zip(fit.target, onto, strict=True)),
        square=fit.square + 1e6 * seen.of("tt"),
        steps=fit.steps + seen.count,
    )


def _surprising(fit: FitMemory, seen: Moments, variables: str, prior: Law) -> bool:
    if fit.steps < MIN_STEPS:
        return False
    now = estimate(fit, variables, prior, 1e3, scale_free=False)
    alone = _added(_nothing(variables), seen, variables)
    residual = _residual(alone, _square(alone.information, len(variables)), _vector(now))
    expected = now.noise_ms**2 + GATE_SPREAD**2 * alone.square / alone.steps
    return residual / alone.steps > GATE * expected


def _vector(found: Estimate) -> list[float]:
    return _scaled(found.law, found.variables)


def _scaled(law: Law, variables: str) -> list[float]:
    return [law.coefficient(v) * _SCALE[v] for v in variables]


def _law(found: list[float], variables: str) -> Law:
    value = {v: c / _SCALE[v] for v, c in zip(variables, found, strict=True)}
    return Law(
        base_ms=value["n"],
        per_prefill_token_ms=value.get("p", 0.0),
        per_decode_row_ms=value["d"],
        per_kv_token_ms=value["k"],
        per_chunk_context_ms=value.get("x", 0.0),
    )


def _square(triangle: tuple[float, ...], size: int) -> list[list[float]]:
    full = [[0.0] * size for _ in range(size)]
    places = combinations_with_replacement(range(size), 2)
    for (row, column), value in zip(places, triangle, strict=True):
        full[row][column] = full[column][row] = value
    return full


def _rescaled(
    believed: list[float], information: list[list[float]], target: tuple[float, ...]
) -> list[float]:
    """The prior stretched so that its predictions fit the evidence best."""
    factor = dot(believed, target) / max(1e-12, quadratic(information, believed))
    return [factor * value for value in believed]


def _posterior(
    information: list[list[float]],
    target: tuple[float, ...],
    believed: list[float],
    spread: float,
    noise_ms: float,
) -> tuple[list[list[float]], list[float]]:
    precision = [list(row) for row in information]
    right = list(target)
    for place, value in enumerate(believed):
        weight = (noise_ms / (spread * value)) ** 2
        precision[place][place] += weight
        right[place] += weight * value
    return precision, right


def _typical_ms(fit: FitMemory, believed: list[float]) -> float:
    return sqrt(fit.square / fit.steps) if fit.steps else believed[0]


def _noise_ms(
    fit: FitMemory, information: list[list[float]], found: list[float], typical_ms: float
) -> float:
    least = (NOISE_FLOOR * typical_ms) ** 2
    total = NOISE_PRIOR_STEPS * 4 * least + max(0.0, _residual(fit, information, found))
    return sqrt(max(least, total / (NOISE_PRIOR_STEPS + fit.steps)))


def _residual(fit: FitMemory, information: list[list[float]], found: list[float]) -> float:
    """Sum of squared residuals of the law on the evidence."""
    return fit.square - 2 * dot(found, fit.target) + quadratic(information, found)
