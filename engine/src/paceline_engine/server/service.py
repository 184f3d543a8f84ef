"""What the three ports share: one engine, its counters, its drain, its tunables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from paceline_engine.client import EngineClient
from paceline_engine.config import Device, EngineConfig
from paceline_engine.server.admission import Admission
from paceline_engine.server.body import Readings
from paceline_engine.server.calls import Calls
from paceline_engine.server.drain import Drain, DrainPhase
from paceline_engine.server.errors import UnavailableError
from paceline_engine.server.liveness import FIRST_STEP_S, RecentSteps, Silence, silence
from paceline_engine.server.loop_metrics import LoopCollector
from paceline_engine.server.memory_watch import MemoryWatch
from paceline_engine.server.request_meter import Metering
from paceline_engine.server.settings import ServerSettings
from paceline_engine.server.tunables import Tunables
from paceline_engine.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Service:
    """The served model.

    Attributes:
        settings: Start-up settings of the server.
        config: Start-up settings of the engine.
        memory: Plan and measurement of memory.
        tokenizer: The model's.
        client: The engine.
        metering: Request metrics and objectives.
        loop_metrics: Engine loop metrics.
        recent_steps: Extremes of the engine's steps of late.
        admission: Limits on what waits.
        drain: State of the drain.
        tunables: Live knobs and their revision.
        calls: Calls in progress on the API port.
        clock: Monotonic seconds.
        wall_clock: Unix time in seconds.
        draw_seed: Seeds for requests that name none.
        created: Unix time of the start.
        request_ids: Source of request ids.
        readings: Bodies that are being read.
    """

    settings: ServerSettings
    config: EngineConfig
    memory: MemoryWatch
    tokenizer: Tokenizer
    client: EngineClient
    metering: Metering
    loop_metrics: LoopCollector
    recent_steps: RecentSteps
    admission: Admission
    drain: Drain
    tunables: Tunables
    calls: Calls
    clock: Callable[[], float]
    wall_clock: Callable[[], int]
    draw_seed: Callable[[], int]
    created: int
    request_ids: itertools.count[int] = field(default_factory=itertools.count)
    readings: Readings = field(default_factory=Readings)

    @property
    def is_serving(self) -> bool:
        """Whether the engine can take requests."""
        return self.client.ready.is_set() and not self.client.failed.is_set()

    def check_open(self) -> None:
        """Whether a new request may enter.

        Raises:
            UnavailableError: Loading, draining, or dead; `code` is the rejection reason.
        """
        if self.client.failed.is_set():
            raise UnavailableError(
                "the engine has failed and this replica restarts; retry, another may serve",
                code="not_ready",
            )
        if not self.client.ready.is_set():
            raise UnavailableError("the model is still loading; retry soon", code="not_ready")
        if self.drain.phase is DrainPhase.REFUSING:
            raise UnavailableError("this replica is draining; retry", code="draining")

    def why_unready(self) -> str | None:
        """Why routers should send no requests here, in one line; None while they should."""
        if self.drain.active:
            return "draining"
        if not self.is_serving:
            return "not serving"
        return self._why_silent(self._silence().unready_s)

    def why_dead(self) -> str | None:
        """Why the engine counts as dead, in one line; None while it lives."""
        if self.client.failure is not None:
            return self.client.failure
        return self._why_silent(self._silence().dead_s)

    def _why_silent(self, limit_s: float) -> str | None:
        silent_s = self.clock() - self.client.last_heartbeat_s
        return f"no heartbeat for {silent_s:.1f} s" if silent_s > limit_s else None

    def _silence(self) -> Silence:
        state = self.client.state
        simulated = self.config.device is Device.SIMULATED
        return silence(
            self.recent_steps,
            state.max_num_batched_tokens,
            0.0 if simulated else FIRST_STEP_S,
            busy=bool(state.requests_running or state.requests_waiting),
        )
