"""What comes to light beside the decisions, told once: a pod that is slow, a model that fails."""

from __future__ import annotations

from collections.abc import Iterator

from paceline_operator.autopilot.plant.pace import sick
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Notice, Reason
from paceline_operator.autopilot.vocabulary.memory import Memory


def slow_pods(s: Situation) -> dict[str, float]:
    """Names of the sick pods, and how many times as long their steps take."""
    slower = {pace.uid: pace.slower for pace in s.memory.paces}
    return {p.name: round(slower[p.uid], 2) for p in s.fleet.serving if p.uid in s.sick}


def noticed(before: Memory, s: Situation) -> tuple[Notice, ...]:
    """What this tick's learning has shown that was not known before."""
    return (*_of_pods(before, s), *_of_model(before, s))


def _of_pods(before: Memory, s: Situation) -> Iterator[Notice]:
    known, now = sick(before.paces), sick(s.memory.paces)
    slower = {pace.uid: pace.slower for pace in s.memory.paces}
    for pod in s.fleet.serving:
        if pod.uid in now - known:
            text = (
                f"Pod {pod.name} takes {slower[pod.uid]:.2f} times as long for a step as its pool: "
                "the model and the live knobs leave it out; look at its node."
            )
            yield Notice(reason=Reason.POD_SLOW, message=text, warning=True)
        elif pod.uid in known - now and _has_recovered(pod.uid, before, s):
            text = f"Pod {pod.name} is as fast as its pool again."
            yield Notice(reason=Reason.POD_RECOVERED, message=text)


def _has_recovered(uid: str, before: Memory, s: Situation) -> bool:
    """Whether the pod's own steps say so; a verdict that was only forgotten says nothing."""
    then = next(pace for pace in before.paces if pace.uid == uid)
    now = next((pace for pace in s.memory.paces if pace.uid == uid), None)
    return now is not None and now.judged_at_s > then.judged_at_s


def _of_model(before: Memory, s: Situation) -> Iterator[Notice]:
    if s.memory.mismatched_at_s > before.mismatched_at_s:
        text = (
            "For a quarter of an hour engine steps took less than half or more than twice the "
            "predicted time: the step-time model starts anew."
        )
        yield Notice(reason=Reason.MODEL_MISMATCH, message=text, warning=True)
