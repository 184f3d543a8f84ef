"""`--tune-for`: presets of visible flags, used only where the user gave none.

What a preset sets is all in `PRESETS`: help, log line and documentation are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum
from typing import Final

from paceline_engine.config import Device
from paceline_engine.server.flags import Flag


class TuneFor(StrEnum):
    """What an engine is tuned for."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


Value = int | float
"""Of a flag; a mapping where devices differ."""
PRESETS: Final[dict[TuneFor, dict[Flag, Value | dict[Device, Value]]]] = {
    TuneFor.LATENCY: {
        Flag.MAX_NUM_BATCHED_TOKENS: {Device.CPU: 128, Device.SIMULATED: 512},
        Flag.MAX_NUM_SEQS: {Device.CPU: 16, Device.SIMULATED: 32},
        Flag.BATCH_WEIGHT: 0.1,
        Flag.MAX_QUEUE_SECONDS: 10.0,
        Flag.MAX_PROJECTED_KV: 2.0,
    },
    TuneFor.THROUGHPUT: {
        Flag.MAX_NUM_BATCHED_TOKENS: {Device.CPU: 1024, Device.SIMULATED: 8192},
        Flag.MAX_NUM_SEQS: {Device.CPU: 128, Device.SIMULATED: 256},
        Flag.BATCH_WEIGHT: 1.0,
        Flag.MAX_QUEUED_REQUESTS: 4096,
        Flag.MAX_QUEUED_TOKENS: 2_000_000,
        Flag.MAX_PROJECTED_KV: 64.0,
    },
}

# A start value lies under its ceiling: whoever gave one of them decided on both.
_TOGETHER: Final = (
    {Flag.MAX_NUM_BATCHED_TOKENS, Flag.INITIAL_BATCHED_TOKENS},
    {Flag.MAX_NUM_SEQS, Flag.INITIAL_RUNNING_SEQS},
)


def preset_values(tune_for: TuneFor | None, device: Device, given: Set[Flag]) -> dict[Flag, Value]:
    """What a preset sets.

    Args:
        tune_for: The preset; None sets nothing.
        device: As asked for; automatic and CUDA are tuned as the CPU is.
        given: Flags that the user gave; they stay as they are, and so does the ceiling of
            a start value that was given.
    """
    if tune_for is None:
        return {}
    decided = set(given).union(*(pair for pair in _TOGETHER if pair & given))
    preset = PRESETS[tune_for]
    return {flag: _on(device, value) for flag, value in preset.items() if flag not in decided}


def described(tune_for: TuneFor) -> str:
    """Flags and values of a preset in one line."""
    return ", ".join(f"{flag} {_text(value)}" for flag, value in PRESETS[tune_for].items())


def _on(device: Device, value: Value | Mapping[Device, Value]) -> Value:
    if not isinstance(value, Mapping):
        return value
    return value[Device.SIMULATED if device is Device.SIMULATED else Device.CPU]


def _text(value: Value | Mapping[Device, Value]) -> str:
    if not isinstance(value, Mapping):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return f"{value[Device.CPU]} ({value[Device.SIMULATED]} simulated)"
