"""Bodies of the admin port, camelCase on the wire.

PUT /admin/tunables::

    {"revision": 7, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 32,
     "stepTimeTargetMs": 40,
     "slos": [{"name": "ttft", "tier": "interactive", "metric": "TTFT", "percentile": 95,
               "targetMs": 500}]}

`stepTimeTargetMs` may be left out; then no step time is kept.

Answer of GET and PUT (`floor`, `ceiling` and `step` are those of each knob; `requested` and
`effective` hold `stepTimeTargetMs` where one is set)::

    {"revision": 7,
     "requested": {"maxNumBatchedTokens": 512, "maxNumRunningSeqs": 32},
     "effective": {"maxNumBatchedTokens": 512, "maxNumRunningSeqs": 32},
     "floor": {"maxNumBatchedTokens": 48, "maxNumRunningSeqs": 1},
     "ceiling": {"maxNumBatchedTokens": 2048, "maxNumRunningSeqs": 64},
     "step": {"maxNumBatchedTokens": 16, "maxNumRunningSeqs": 1},
     "slos": [...]}

Answer of GET, POST and DELETE /admin/drain::

    {"phase": "none" | "announced" | "refusing", "runningRequests": 0, "empty": true,
     "terminal": false}

`terminal` says that the process ends after the drain, which cannot be undone.

Errors are `{"error": {message, type, param, code}}`; codes: `unsupported`,
`stale_revision`, `revision_conflict`, `invalid_value`, `unauthorized`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.alias_generators import to_camel

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


class AdminModel(BaseModel):
    """Base: frozen, camelCase, tolerant of unknown fields."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class SloMetric(StrEnum):
    """Latency an objective is about."""

    TTFT = "TTFT"
    ITL = "ITL"
    TPOT = "TPOT"
    E2E = "E2E"


class Slo(AdminModel):
    """At least `percentile` % of samples within `target_ms`."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    tier: Annotated[str, Field(max_length=32)] = "interactive"
    metric: SloMetric
    percentile: Annotated[int, Field(ge=50, le=99)] = 95
    target_ms: Annotated[int, Field(ge=1, le=INT32_MAX)]


class TunablesRequest(AdminModel):
    """Body of PUT /admin/tunables, and of `tunables.json` in the mounted directory."""

    revision: Annotated[int, Field(ge=0, le=INT64_MAX)]
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)]
    max_num_running_seqs: Annotated[int, Field(ge=1, le=INT32_MAX)]
    step_time_target_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    slos: Annotated[tuple[Slo, ...], Field(max_length=16)] = ()


class Knobs(AdminModel):
    """One value for each live knob; without a step-time target its key is left out."""

    max_num_batched_tokens: int
    max_num_running_seqs: int
    step_time_target_ms: float | None = None

    @model_serializer(mode="wrap")
    def _leave_out_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {key: value for key, value in serialize(self).items() if value is not None}


class TunablesResponse(AdminModel):
    """What was asked for and what is in force."""

    revision: int
    requested: Knobs
    effective: Knobs
    floor: Knobs
    ceiling: Knobs
    step: Knobs
    slos: tuple[Slo, ...] = ()


class DrainResponse(AdminModel):
    """State of the drain."""

    phase: str
    running_requests: int
    empty: bool
    terminal: bool = False
