"""The life of the engine process: load, say so, serve, and say why it ends."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

from paceline_engine import log
from paceline_engine.clock import MonotonicClock
from paceline_engine.config import Device, EngineConfig
from paceline_engine.engine.channel import Channel
from paceline_engine.engine.loading import LoadingHeartbeat
from paceline_engine.engine.loop import EngineLoop
from paceline_engine.engine.revision import model_revision
from paceline_engine.message import EngineFailed, LoopState, Ready
from paceline_engine.runner.base import Runner
from paceline_engine.runner.factory import RunnerLoadError, create_runner
from paceline_engine.scheduler.limits import LiveLimits
from paceline_engine.scheduler.scheduler import Scheduler

EXIT_CANNOT_LOAD = 2


def serve(config: EngineConfig, channel: Channel) -> int:
    """Runs an engine until it is told to end.

    Returns:
        Exit code: 0 after a shutdown, `EXIT_CANNOT_LOAD` after a reported load error.

    Raises:
        BaseException: What ended the loop, after the server was told in one line.
    """
    try:
        runner, config = _load(config, channel)
        try:
            _serve_loaded(config, channel, runner)
        finally:
            runner.close()
    except RunnerLoadError as error:
        channel.send(EngineFailed(reason=one_line(error)))
        return EXIT_CANNOT_LOAD
    except BaseException as error:
        channel.send(EngineFailed(reason=f"the engine failed: {one_line(error)}"))
        raise
    return 0


def _load(config: EngineConfig, channel: Channel) -> tuple[Runner, EngineConfig]:
    """The runner, and the configuration with the revision of what it loaded."""
    with LoadingHeartbeat(channel, _loading_state(config)):
        runner = create_runner(config, MonotonicClock())
        return runner, replace(config, model_revision=_revision(config))


def _revision(config: EngineConfig) -> str:
    if config.model_path is None or config.device is Device.SIMULATED:
        return config.model_revision  # its tokens do not depend on weights
    try:
        return model_revision(Path(config.model_path), config.num_threads)
    except OSError as error:
        raise RunnerLoadError(f"cannot read model {config.model_path}: {error.strerror}") from error


def _loading_state(config: EngineConfig) -> LoopState:
    limits = LiveLimits(config)
    return LoopState(
        requests_running=0,
        requests_waiting=0,
        waiting_tokens=0,
        kv_blocks_free=config.num_kv_blocks,
        kv_blocks_held=0,
        kv_blocks_cached=0,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        max_num_running_seqs=limits.max_num_running_seqs,
        step_time_target_ms=limits.step_time_target_ms,
    )


def _serve_loaded(config: EngineConfig, channel: Channel, runner: Runner) -> None:
    loop = EngineLoop(Scheduler(config), runner, channel, MonotonicClock())
    gc.collect()
    gc.freeze()  # what start-up made lives on: no collection need look at it
    channel.send(Ready(num_kv_blocks=config.num_kv_blocks, block_size=config.block_size))
    loop.run()


def one_line(error: BaseException) -> str:
    """What callers may be told of an error: its text only where it is one of ours.

    Others may hold what the failing line worked on, a prompt or a part of one.
    """
    kind = type(error)
    text = " ".join(str(error).split()) if kind.__module__.startswith(f"{log.OWN}.") else ""
    if isinstance(error, RunnerLoadError):
        return text
    return f"{kind.__name__}: {text}" if text else kind.__name__
