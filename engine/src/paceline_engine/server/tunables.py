"""Which tunables hold: revisions, bounds, and the answer of GET and PUT. No I/O.

The engine applies; here is decided what may be applied, and what is reported.
"""

from __future__ import annotations

from paceline_engine.config import EngineConfig, budget_floor
from paceline_engine.server.admin_wire import Knobs, Slo, TunablesRequest, TunablesResponse
from paceline_engine.server.errors import ConflictError


class Tunables:
    """The tunables asked for last, and the bounds they move in.

    Args:
        config: Ceilings and start values.
        start: What the mounted ConfigMap holds; None without one.

    Attributes:
        revision: Revision in force.
        slos: Objectives in force.
        applied: Knobs in force as the engine reported them with the last change.
    """

    def __init__(self, config: EngineConfig, start: TunablesRequest | None = None) -> None:
        self._config = config
        self._request = start
        self.revision = start.revision if start else 0
        self.slos: tuple[Slo, ...] = start.slos if start else ()
        self.applied: Knobs | None = None

    def is_new(self, request: TunablesRequest) -> bool:
        """Whether a PUT changes anything; False where it repeats the one in force.

        Raises:
            ConflictError: It is older, or other than what this revision was.
        """
        if request.revision < self.revision:
            raise ConflictError(
                f"revision {request.revision} is older than {self.revision}, which is in force",
                param="revision",
                code="stale_revision",
            )
        if request.revision > self.revision or self._request is None:
            return True
        if request != self._request:
            raise ConflictError(
                f"revision {request.revision} is in force with other values; use a higher one",
                param="revision",
                code="revision_conflict",
            )
        return False

    def accept(self, request: TunablesRequest, applied: Knobs) -> None:
        """The engine has applied the request: it is in force."""
        self._request = request
        self.applied = applied
        self.revision = request.revision
        self.slos = request.slos

    def report(self, at_start: Knobs) -> TunablesResponse:
        """Answer of GET and PUT.

        Args:
            at_start: What the engine says is in force, where nothing was applied yet.
        """
        effective = self.applied or at_start
        config = self._config
        step = config.budget_step
        floor = min(
            budget_floor(effective.max_num_running_seqs, step), config.max_num_batched_tokens
        )
        return TunablesResponse(
            revision=self.revision,
            requested=self._requested(),
            effective=effective,
            floor=Knobs(max_num_batched_tokens=floor, max_num_running_seqs=1),
            ceiling=Knobs(
                max_num_batched_tokens=config.max_num_batched_tokens,
                max_num_running_seqs=config.max_num_seqs,
            ),
            step=Knobs(max_num_batched_tokens=step, max_num_running_seqs=1),
            slos=self.slos,
        )

    def _requested(self) -> Knobs:
        source = self._request
        if source is None:
            return Knobs(
                max_num_batched_tokens=self._config.initial_batched_tokens,
                max_num_running_seqs=self._config.initial_running_seqs,
                step_time_target_ms=self._config.initial_step_time_target_ms or None,
            )
        return Knobs(
            max_num_batched_tokens=source.max_num_batched_tokens,
            max_num_running_seqs=source.max_num_running_seqs,
            step_time_target_ms=source.step_time_target_ms,
        )
