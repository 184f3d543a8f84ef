"""What `what-if` takes of the live object: its spec, and what its operator has learned."""

from __future__ import annotations

from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.autopilot.vocabulary.memory import load_memory
from paceline_operator.cli.errors import CliError
from paceline_operator.cli.manifest import check_playable, read_spec
from paceline_operator.cli.service import Service, connected
from paceline_operator.simulator.what_if.engine_facts import Measured

_KV_TOKENS = "kvCapacityTokens"


async def live_service(
    name: str, namespace: str | None, context: str | None, *, is_required: bool
) -> tuple[Service | None, tuple[str, ...]]:
    """The live object, or a note why there is none.

    Raises:
        CliError: There is none, and it is required.
    """
    try:
        async with connected(namespace, context) as reader:
            return await reader.read(name), ()
    except CliError as error:
        if is_required:
            raise
        return None, (f"No old spec: {error}.",)


def measured_on(service: Service, kv_tokens: int | None) -> Measured:
    """Spec and knowledge of a live fleet.

    Args:
        service: As it was read.
        kv_tokens: Of one replica, where the load's source knows.

    Raises:
        CliError: Its spec cannot be played.
    """
    where = f"{service.namespace}/{service.name} in the cluster"
    try:
        spec = read_spec(service.spec, where)
        check_playable(spec, where)
    except CliError as error:
        raise CliError(f"{error}; this is the old spec: --old none plays the new one alone") from (
            error
        )
    return Measured(
        source=where,
        spec=spec,
        memory=load_memory((service.status.memory or {}).get("pilot")),
        trusted=bool((service.status.model or {}).get("trusted", True)),
        kv_tokens=reported_kv_tokens(service.status) if kv_tokens is None else kv_tokens,
    )


def reported_kv_tokens(status: InferenceServiceStatus) -> int | None:
    """KV tokens of the smallest replica, as the newest decisions saw it; None where none did."""
    inputs = ((knob.inputs or {}).get(_KV_TOKENS) for knob in status.knobs)
    return min((int(each) for each in inputs if isinstance(each, int | float)), default=None)
