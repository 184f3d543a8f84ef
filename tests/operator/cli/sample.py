"""An object as the operator leaves it, with moments of 2026-01-01 12:00 UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.cli.service import Service

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
TIME = "2026-01-01T12:00:00Z"

SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}, "batchTokens": {"max": 1024}},
    "slos": [
        {"name": "first-token", "metric": "TTFT", "targetMs": 1500},
        {"name": "cadence", "metric": "ITL", "targetMs": 250},
    ],
}


def _decision(knob: str, action: str, reason: str, message: str, **more: str) -> dict[str, Any]:
    said = {"time": TIME, "knob": knob, "action": action, "reason": reason, "message": message}
    return {**said, **more}


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": TIME,
    }


LOWERED = _decision(
    "budget",
    "Lower",
    "ItlPrefillBound",
    "Budget 1024 -> 96: by the model a full step of 1024 tokens takes 4.5 s, the ITL target is "
    "250 ms; 96 tokens take 212 ms. What is said here is long, as sentences with figures are.",
    guard="AtFloor",
)

STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "replicas": 2,
    "readyReplicas": 2,
    "desiredReplicas": 3,
    "budget": {
        "revision": 4,
        "desired": 96,
        "effective": 96,
        "runningSeqs": 16,
        "acknowledged": 2,
        "total": 2,
    },
    "slos": [
        {
            "name": "first-token",
            "metric": "TTFT",
            "targetMs": 1500,
            "attainmentPercent": 91.2,
            "verdict": "Missed",
            "measuredMs": 1712.0,
            "samples": 240,
            "measuredAt": TIME,
        },
        {
            "name": "cadence",
            "metric": "ITL",
            "targetMs": 250,
            "attainmentPercent": 99.1,
            "verdict": "Held",
            "measuredMs": 221.0,
            "samples": 900,
            "measuredAt": TIME,
        },
    ],
    "model": {
        "baseMs": 41.0,
        "perPrefillTokenMs": 4.2,
        "perDecodeRowMs": 4.5,
        "perKvTokenMs": 0.004,
        "decodeStepMs": 61.0,
        "budgetStepMs": 212.0,
        "budgetCap": 112,
        "capacityRps": 1.25,
        "steps": 812.0,
        "trusted": True,
    },
    "lastDecision": _decision("replicas", "Hold", "AtMaximum", "4 needed, maxReplicas is 3."),
    "decisions": [LOWERED],
    "conditions": [
        _condition("Ready", "True", "PodsReady", "the wanted pods are ready"),
        _condition("SLOMet", "False", "Missed", "first-token is missed"),
        _condition("SLOFeasible", "True", "ByTheModel", "fits"),
        _condition("ScalingLimited", "True", "AtMaximum", "4 needed, maxReplicas is 3."),
    ],
    "memory": {"pilot": {"margin": 0.2}},
}


def service(status: dict[str, Any] | None = None) -> Service:
    return Service(
        name="chat",
        namespace="default",
        generation=1,
        spec=SPEC,
        status=InferenceServiceStatus.model_validate(STATUS if status is None else status),
    )
