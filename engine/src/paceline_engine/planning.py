"""Decides how an engine starts: flags and model in, plain configuration out. No torch.

Every mistake is a `StartError` of one line; `main` prints it and exits with code 2.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paceline_engine.config import Device, EngineConfig, budget_floor, budget_step
from paceline_engine.memory import PlannedMemory
from paceline_engine.processors import usable_cpus
from paceline_engine.server.admin_wire import TunablesRequest
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import ServeOptions
from paceline_engine.sizes import Sizes, real_sizes, simulated_sizes
from paceline_engine.start_error import StartError
from paceline_engine.step_law import profile, step_law
from paceline_engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from paceline_engine.weights import ModelConfig

DEFAULT_BATCHED_TOKENS: Final = {Device.SIMULATED: 2048, Device.CPU: 512}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How an engine starts.

    Attributes:
        config: Of the engine process.
        memory: Where the memory of both processes goes.
    """

    config: EngineConfig
    memory: PlannedMemory


def resolve_device(options: ServeOptions) -> Device:
    """The device to use.

    Raises:
        StartError: It is not there, or there is no model for it.
    """
    device = Device.CPU if options.device is Device.AUTO else options.device
    if device is Device.CUDA:
        raise StartError(f"{Flag.DEVICE}: cuda is not supported yet; use cpu or simulated")
    if device is not Device.SIMULATED and options.model is None:
        raise StartError(
            f"{Flag.MODEL} is missing; give a GGUF file or a directory, or {Flag.DEVICE} simulated"
        )
    return device


def check_device(options: ServeOptions) -> None:
    """Whether the device and its profile exist, before anything is loaded.

    Raises:
        StartError: One does not; says which there are.
    """
    resolve_device(options)
    profile(options)


def check_together(options: ServeOptions) -> None:
    """Whether every flag that was given has something to act on.

    Raises:
        StartError: One would do nothing; says what it needs.
    """
    if options.tenant_weights and not options.trust_tenant_header:
        raise StartError(
            f"{Flag.TENANT_WEIGHTS} does nothing without {Flag.TRUST_TENANT_HEADER} on: no caller "
            "has a tenant"
        )
    if options.prefix_cache_retention_seconds is not None and not options.prefix_caching:
        raise StartError(
            f"{Flag.PREFIX_CACHE_RETENTION_SECONDS} does nothing with {Flag.PREFIX_CACHING} off"
        )


def served_name(options: ServeOptions) -> str:
    """The name that clients use: given, or from the model's path."""
    if options.served_name:
        return options.served_name
    return Path(options.model).name.removesuffix(".gguf") if options.model else "simulated"


def plan(options: ServeOptions, tokenizer: Tokenizer, start_values: TunablesRequest | None) -> Plan:
    """The engine's configuration and memory.

    Raises:
        StartError: Flags contradict each other or the model, or memory does not suffice.
    """
    device = resolve_device(options)
    model = None if options.model is None else _model_config(options.model)
    if model is not None:
        _check_vocabulary(options.model, tokenizer.vocab_size, model.vocab_size)
    ceiling, max_num_seqs = _ceilings(options, device)
    sizes = _sizes(options, device, model, (ceiling, max_num_seqs))
    config = EngineConfig(
        model_path=options.model,
        device=device,
        max_model_len=sizes.max_model_len,
        max_num_batched_tokens=ceiling,
        max_num_seqs=max_num_seqs,
        initial_batched_tokens=_initial(
            options.initial_batched_tokens,
            (ceiling, options.max_num_batched_tokens or ceiling),
            Flag.INITIAL_BATCHED_TOKENS,
            start_values.max_num_batched_tokens if start_values else None,
        ),
        initial_running_seqs=_initial(
            options.initial_running_seqs,
            (max_num_seqs, options.max_num_seqs),
            Flag.INITIAL_RUNNING_SEQS,
            start_values.max_num_running_seqs if start_values else None,
        ),
        initial_step_time_target_ms=(start_values and start_values.step_time_target_ms) or 0.0,
        num_kv_blocks=sizes.num_kv_blocks,
        vocab_size=tokenizer.vocab_size,
        eos_token_ids=tokenizer.eos_token_ids,
        unsampled_ids=tokenizer.unsampled_ids,
        block_size=options.block_size,
        num_threads=options.threads or usable_cpus(),
        step_time_law=step_law(options) if device is Device.SIMULATED else None,
        load_seconds=options.load_seconds,
        prefix_caching=options.prefix_caching,
        cache_retention_s=options.prefix_cache_retention_seconds,
        batch_weight=options.batch_weight,
        interactive_max_wait_s=options.interactive_max_wait_seconds,
        batch_max_wait_s=options.batch_max_wait_seconds,
        tenant_weights=options.tenant_weights,
    )
    return Plan(config=config, memory=sizes.memory)


def _ceilings(options: ServeOptions, device: Device) -> tuple[int, int]:
    """Token budget and running sequences that can really be reached, at most as given.

    The budget lies on the ladder, and each running sequence and one prompt need a token.
    """
    given = options.max_num_batched_tokens or DEFAULT_BATCHED_TOKENS[device]
    step = budget_step(device)
    least = budget_floor(1, step)
    if given < least:
        raise StartError(
            f"{Flag.MAX_NUM_BATCHED_TOKENS} {given} is too small; the least is {least}"
        )
    ceiling = given // step * step
    max_num_seqs = min(options.max_num_seqs, ceiling - 1)
    if (ceiling, max_num_seqs) != (given, options.max_num_seqs):
        _log.warning(
            "ceilings rounded down to what can be reached: %s %d and %s %d",
            Flag.MAX_NUM_BATCHED_TOKENS,
            ceiling,
            Flag.MAX_NUM_SEQS,
            max_num_seqs,
        )
    return ceiling, max_num_seqs


def _initial(given: int | None, ceilings: tuple[int, int], flag: Flag, agreed: int | None) -> int:
    """Start value of a knob: what peers agreed on, else the flag, else the ceiling.

    Args:
        given: The flag.
        ceilings: The one that can be reached, and the one that was asked for.
        flag: Its name.
        agreed: What peers agreed on.
    """
    ceiling, asked = ceilings
    if given is not None and given > asked:
        raise StartError(f"{flag} {given} is above the ceiling of {asked}")
    return min(agreed or given or ceiling, ceiling)


def _check_vocabulary(path: str | None, tokens: int, rows: int) -> None:
    if tokens > rows:
        raise StartError(
            f"{path}: the tokenizer has {tokens} tokens and the model's embedding {rows} rows; "
            "they do not belong together, fetch both again"
        )


def _sizes(
    options: ServeOptions, device: Device, model: ModelConfig | None, ceilings: tuple[int, int]
) -> Sizes:
    if device is Device.SIMULATED or model is None:
        return simulated_sizes(options, model)
    return real_sizes(options, model, *ceilings)


def _model_config(path: str) -> ModelConfig:
    from paceline_engine.weights import (  # noqa: PLC0415 loads numpy
        CheckpointError,
        read_model_config,
    )

    try:
        return read_model_config(path)
    except CheckpointError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"cannot read model {path}: {error.strerror}") from error
