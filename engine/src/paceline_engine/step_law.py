"""The step-time law of a simulated engine: of a profile, or written out."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Final

from paceline_engine.config import StepTimeLaw
from paceline_engine.runner.profiles import Profile, UnknownProfileError, find_profile
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import ServeOptions
from paceline_engine.start_error import StartError

DEFAULT_PROFILE: Final = "llama-3-8b-a100"


def profile(options: ServeOptions) -> Profile:
    """The profile asked for, or the default one.

    Raises:
        StartError: There is none of that name; says which there are.
    """
    try:
        return find_profile(options.profile or DEFAULT_PROFILE)
    except UnknownProfileError as error:
        raise StartError(f"{Flag.PROFILE}: {error}") from error


def step_law(options: ServeOptions) -> StepTimeLaw:
    """The law in force.

    Raises:
        StartError: See `parse_law` and `profile`.
    """
    if options.step_coefficients is not None:
        return parse_law(options.step_coefficients)
    return profile(options).law


def parse_law(text: str) -> StepTimeLaw:
    """Reads `base_ms=9.8,per_token_ms=0.05,...`.

    Raises:
        StartError: An unknown or missing coefficient, or one that is not a number >= 0.
    """
    known = [field.name for field in fields(StepTimeLaw)]
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name not in known:
            raise StartError(
                f"{Flag.STEP_COEFFICIENTS}: {name!r} is unknown; choose from {', '.join(known)}"
            )
        given[name] = _coefficient(name, number)
    if not {"base_ms", "per_token_ms"} <= given.keys():
        raise StartError(f"{Flag.STEP_COEFFICIENTS}: base_ms and per_token_ms are needed")
    return StepTimeLaw(**given)


def _coefficient(name: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise StartError(f"{Flag.STEP_COEFFICIENTS}: {name}={number} is not a number >= 0")
    return value
