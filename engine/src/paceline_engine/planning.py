"""Decides how an engine starts: flags and model in, plain configuration out. No torch.

Every mistake is a `StartError` of one line; `main` prints it and exits with code 2.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paceline_engine.config import (
    Device,
    EngineConfig,
    StepTimeLaw,
    budget_floor,
    budget_step,
    round_up,
)
from paceline_engine.runner.profiles import UnknownProfileError, find_profile
from paceline_engine.server.admin_wire import TunablesRequest
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import ServeOptions
from paceline_engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from paceline_engine.weights import ModelConfig

DEFAULT_PROFILE: Final = "llama-3-8b-a100"
SIMULATED_MODEL_LEN: Final = 8192
SIMULATED_KV_BYTES_PER_TOKEN: Final = 128 * 1024  # Llama-3-8B in 16 bit
DEFAULT_BATCHED_TOKENS: Final = {Device.SIMULATED: 2048, Device.CPU: 512}
CGROUP_DIR: Final = Path("/sys/fs/cgroup")

_log = logging.getLogger(__name__)


class StartError(Exception):
    """The engine cannot start as asked; the message is one line with a remedy."""


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
    try:
        find_profile(options.profile or DEFAULT_PROFILE)
    except UnknownProfileError as error:
        raise StartError(f"{Flag.PROFILE}: {error}") from error


def served_name(options: ServeOptions) -> str:
    """The name that clients use: given, or from the model's path."""
    if options.served_name:
        return options.served_name
    return Path(options.model).name.removesuffix(".gguf") if options.model else "simulated"


def plan(
    options: ServeOptions, tokenizer: Tokenizer, start_values: TunablesRequest | None
) -> EngineConfig:
    """The engine's configuration.

    Raises:
        StartError: Flags contradict each other or the model, or memory does not suffice.
    """
    device = resolve_device(options)
    model = None if options.model is None else _model_config(options.model)
    if model is not None:
        _check_vocabulary(options.model, tokenizer.vocab_size, model.vocab_size)
    ceiling, max_num_seqs = _ceilings(options, device)
    model_len, num_kv_blocks = _sizes(options, device, model, ceiling)
    law = _law(options) if device is Device.SIMULATED else None
    return EngineConfig(
        model_path=options.model,
        device=device,
        max_model_len=model_len,
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
        num_kv_blocks=num_kv_blocks,
        vocab_size=tokenizer.vocab_size,
        eos_token_ids=tokenizer.eos_token_ids,
        block_size=options.block_size,
        num_threads=options.threads or usable_cpus(),
        step_time_law=law,
        load_seconds=options.load_seconds,
    )


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
    options: ServeOptions, device: Device, model: ModelConfig | None, ceiling: int
) -> tuple[int, int]:
    """Longest request in tokens, and KV blocks."""
    if device is Device.SIMULATED or model is None:
        return _simulated_sizes(options, model)
    return _real_sizes(options, model, ceiling)


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


def _model_len(options: ServeOptions, context_length: int) -> int:
    if options.max_model_len is not None and options.max_model_len > context_length:
        raise StartError(
            f"{Flag.MAX_MODEL_LEN} {options.max_model_len} is above the model's context of "
            f"{context_length} tokens"
        )
    return options.max_model_len or context_length


def _simulated_sizes(options: ServeOptions, model: ModelConfig | None) -> tuple[int, int]:
    if model is None:
        model_len = options.max_model_len or SIMULATED_MODEL_LEN
        bytes_per_token = SIMULATED_KV_BYTES_PER_TOKEN
    else:
        model_len = _model_len(options, model.context_length)
        bytes_per_token = model.kv_bytes_per_token
    if options.kv_cache_memory is None:
        capacity = find_profile(options.profile or DEFAULT_PROFILE).kv_capacity_tokens
    else:
        capacity = options.kv_cache_memory // bytes_per_token
    blocks = capacity // options.block_size
    _check_holds_one(blocks, model_len, options.block_size)
    return model_len, blocks


def _check_holds_one(blocks: int, model_len: int, block_size: int) -> None:
    """Whether the KV cache holds one request of full length, on any device."""
    if blocks * block_size < round_up(model_len, block_size):
        raise StartError(
            f"too little memory: the KV cache holds {blocks * block_size} tokens and one request "
            f"may have {model_len}; raise {Flag.KV_CACHE_MEMORY} or lower {Flag.MAX_MODEL_LEN}"
        )


def _real_sizes(options: ServeOptions, model: ModelConfig, ceiling: int) -> tuple[int, int]:
    from paceline_engine.runner.memory_limit import available_memory_bytes  # noqa: PLC0415
    from paceline_engine.runner.memory_plan import (  # noqa: PLC0415 loads numpy
        InsufficientMemoryError,
        blocks_in,
        plan_memory,
    )

    model_len = _model_len(options, model.context_length)
    wanted = options.kv_cache_memory
    num_kv_blocks = None if wanted is None else blocks_in(wanted, model, options.block_size)
    if num_kv_blocks is not None:
        _check_holds_one(num_kv_blocks, model_len, options.block_size)
    try:
        memory = plan_memory(
            model,
            available_bytes=available_memory_bytes(),
            max_model_len=model_len,
            max_num_batched_tokens=ceiling,
            max_num_seqs=options.max_num_seqs,
            block_size=options.block_size,
            num_kv_blocks=num_kv_blocks,
        )
    except InsufficientMemoryError as error:
        raise StartError(str(error)) from error
    return model_len, memory.num_kv_blocks


def _law(options: ServeOptions) -> StepTimeLaw:
    if options.step_coefficients is not None:
        return parse_law(options.step_coefficients)
    return find_profile(options.profile or DEFAULT_PROFILE).law


def parse_law(text: str) -> StepTimeLaw:
    """Reads `base_ms=9.8,per_token_ms=0.05,...`.

    Raises:
        StartError: An unknown or missing coefficient, or one that is not a number >= 0.
    """
    known = [field.name for field in fields(StepTimeLaw)]
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name not in known:
            raise StartError(
                f"{Flag.STEP_COEFFICIENTS}: {name!r} is unknown; choose from {', '.join(known)}"
            )
        given[name] = _coefficient(name, number)
    if not {"base_ms", "per_token_ms"} <= given.keys():
        raise StartError(f"{Flag.STEP_COEFFICIENTS}: base_ms and per_token_ms are needed")
    return StepTimeLaw(**given)


def _coefficient(name: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise StartError(f"{Flag.STEP_COEFFICIENTS}: {name}={number} is not a number >= 0")
    return value


def usable_cpus() -> int:
    """CPUs this process may use: its affinity, cut to whole CPUs of its quota."""
    return cpus_within(len(os.sched_getaffinity(0)), CGROUP_DIR)


def cpus_within(allowed: int, cgroup: Path) -> int:
    """CPUs that a control group leaves, at least 1.

    Formats: Linux `cgroup-v2.rst` and `scheduler/sched-bwc.rst` (version 1).

    Args:
        allowed: CPUs without a quota.
        cgroup: Mount of the control groups, as seen from inside a container.
    """
    for quota, period in _quotas(cgroup):
        if quota.isdigit() and period.isdigit() and int(period):
            return max(1, min(allowed, int(quota) // int(period)))
    return allowed


def _quotas(cgroup: Path) -> Iterator[tuple[str, str]]:
    """Microseconds per period and the period; a text that is no number means no limit."""
    both = _setting(cgroup / "cpu.max").split()
    if len(both) == 2:
        yield both[0], both[1]
    for controller in ("cpu", "cpu,cpuacct"):
        directory = cgroup / controller
        yield (
            _setting(directory / "cpu.cfs_quota_us"),
            _setting(directory / "cpu.cfs_period_us"),
        )


def _setting(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
