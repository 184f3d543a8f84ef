"""What a move was expected to bring, beside what was measured after it."""

from __future__ import annotations

from paceline_operator.api.status import DecisionStatus
from paceline_operator.cli import wording

_NAMES = {
    "fullStepMs": "a full step",
    "decodeStepMs": "a step that only decodes",
    "ttftMs": "the first token",
    "capacityRps": "capacity",
    "offeredRps": "offered",
    "servingPods": "serving replicas",
    "tryingPods": "pods that try it",
}


def compared(decision: DecisionStatus) -> tuple[str, ...]:
    """Sentences; none where nothing was expected of it."""
    expected, observed = wording.figures(decision.expected), wording.figures(decision.observed)
    if not expected:
        return ()
    said = [f"Expected: {_listed(expected)}."]
    if not observed:
        return (*said, "Not measured yet.")
    over = f" over {observed['overS']:.0f} s" if "overS" in observed else ""
    said.append(f"Measured after{over}: {_listed(observed)}{_attained(observed)}.")
    mean, predicted = observed.get("promptStepMeanMs"), observed.get("promptStepMeanPredictedMs")
    if mean is not None and predicted is not None:
        said.append(
            f"Steps with prompt tokens took {wording.latency(mean)} in the mean; the model of then "
            f"gives {wording.latency(predicted)} for what they carried."
        )
    return tuple(said)


def _listed(figures: dict[str, float]) -> str:
    said = [
        f"{words} {_value(name, figures[name])}"
        for name, words in _NAMES.items()
        if name in figures
    ]
    return ", ".join(said) or "nothing that can be told"


def _value(name: str, value: float) -> str:
    if name.endswith("Ms"):
        return wording.latency(value)
    return f"{value:.2f} requests/s" if name.endswith("Rps") else f"{value:.0f}"


def _attained(observed: dict[str, float]) -> str:
    said = [
        f"{name.removeprefix('attainment.')} {wording.share(100 * share)} within target"
        for name, share in observed.items()
        if name.startswith("attainment.")
    ]
    return "".join(f", {each}" for each in said)
