"""Closed sets of values in the API; what is not listed is refused by the API server."""

from __future__ import annotations

from enum import StrEnum


class Runtime(StrEnum):
    """Engine software."""

    PACELINE = "Paceline"
    VLLM = "VLLM"


class DeviceType(StrEnum):
    """Where the forward pass runs."""

    AUTO = "Auto"
    CPU = "CPU"
    CUDA = "CUDA"
    SIMULATED = "Simulated"


class SloVerdict(StrEnum):
    """What samples prove of an objective: Held, Missed, or Open, which is neither."""

    HELD = "Held"
    MISSED = "Missed"
    OPEN = "Open"


class SloMetric(StrEnum):
    """Latency an objective is about."""

    TTFT = "TTFT"
    ITL = "ITL"
    TPOT = "TPOT"
    E2E = "E2E"


class Tier(StrEnum):
    """Service tier an objective is about."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class Mode(StrEnum):
    """Autonomy of one knob."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


class Pacing(StrEnum):
    """What keeps steps within the objective on gaps between tokens."""

    STEP_TIME = "StepTime"
    BUDGET = "Budget"


class Pause(StrEnum):
    """Replica moves held back for now."""

    NONE = "None"
    IN = "In"
    OUT = "Out"
    ALL = "All"


class FreezeScope(StrEnum):
    """Moves that a freeze window holds."""

    ALL = "All"
    IN = "In"


class RoutingMode(StrEnum):
    """What stands in front of the pods."""

    PROXY = "Proxy"
    SERVICE = "Service"


class RolloutStrategy(StrEnum):
    """How pods are replaced."""

    AUTO = "Auto"
    SURGE = "Surge"
    REPLACE = "Replace"


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"
