"""Chooses the runner of a configuration; torch is loaded for the devices that compute."""

from __future__ import annotations

from paceline_engine.clock import Clock
from paceline_engine.config import Device, EngineConfig
from paceline_engine.runner.base import Runner
from paceline_engine.runner.simulated import SimulatedRunner, TokenLaw


class RunnerLoadError(Exception):
    """The model cannot be loaded onto the device; the text is one line that says what to do."""


def create_runner(config: EngineConfig, clock: Clock) -> Runner:
    """Loads the model onto the configured device.

    Raises:
        RunnerLoadError: See there.
    """
    match config.device:
        case Device.SIMULATED:
            return _create_simulated(config, clock)
        case Device.CPU:
            return _create_cpu(config)
        case _:
            raise RunnerLoadError(
                f"device {config.device.value!r} has no runner here: use cpu or simulated"
            )


def _create_cpu(config: EngineConfig) -> Runner:
    from paceline_engine.runner.cpu import CpuRunner  # noqa: PLC0415 loads torch
    from paceline_engine.runner.memory_room import InsufficientMemoryError  # noqa: PLC0415
    from paceline_engine.weights.errors import CheckpointError  # noqa: PLC0415

    try:
        return CpuRunner(config)
    except (CheckpointError, InsufficientMemoryError, OSError) as error:
        raise RunnerLoadError(str(error)) from error
    except MemoryError as error:
        raise RunnerLoadError(
            "not enough memory for weights and KV cache: lower the KV cache or raise the limit"
        ) from error


def _create_simulated(config: EngineConfig, clock: Clock) -> Runner:
    if config.step_time_law is None:
        raise RunnerLoadError(
            "the simulated device needs a step-time law: name a profile or give coefficients"
        )
    try:
        tokens = TokenLaw(config.vocab_size, (*config.eos_token_ids, *config.unsampled_ids))
    except ValueError as error:
        raise RunnerLoadError(str(error)) from error
    clock.sleep_until(clock.now() + config.load_seconds)
    return SimulatedRunner(config.step_time_law, tokens, clock)
