"""The command line of `paceline-engine serve`: type, default and help of each flag."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NoReturn

from typing_extensions import override

from paceline_engine.config import ADMIN_PORT, API_PORT, HEALTH_PORT, Device
from paceline_engine.server.flags import COMMAND, SUBCOMMAND, Flag

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_SIZE: Final = re.compile(r"(\d+)([KMGT]i?)?B?")
_UNITS: Final[dict[str | None, int]] = {
    None: 1,
    **{letter: 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGT", start=1)},
}


class OptionError(Exception):
    """A flag is wrong; the message is one line naming it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Flags as given; None where the start-up decides. Fields are named as their flags."""

    model: str | None
    served_name: str | None
    device: Device
    profile: str | None
    step_coefficients: str | None
    load_seconds: float
    max_model_len: int | None
    max_num_batched_tokens: int | None
    max_num_seqs: int
    initial_batched_tokens: int | None
    initial_running_seqs: int | None
    block_size: int
    kv_cache_memory: int | None
    threads: int | None
    host: str
    port: int
    health_port: int
    admin_port: int
    api_key_file: Path | None
    admin_token_file: Path | None
    tunables_dir: Path | None
    drain_seconds: float
    drain_grace_seconds: float
    max_queued_requests: int
    max_queued_tokens: int
    max_body_bytes: int
    log_level: str


def parse(arguments: Sequence[str]) -> ServeOptions:
    """Reads the arguments after the command's name; a repeated flag's last value holds.

    Raises:
        OptionError: An unknown flag, a malformed value, or no subcommand.
        SystemExit: After `--help`.
    """
    values = vars(_parser().parse_args(list(arguments)))
    return ServeOptions(**{field.name: values[field.name] for field in fields(ServeOptions)})


def _count(minimum: int, maximum: int = 2**31 - 1) -> Callable[[str], int]:
    def count(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{value} is not within {minimum} to {maximum}")
        return value

    count.__name__ = "number"  # argparse names it in its message
    return count


def seconds(text: str) -> float:
    """Seconds of a flag, 0 to a day.

    Raises:
        argparse.ArgumentTypeError: Outside of that.
    """
    value = float(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not within 0 to 86400 seconds")
    return value


def byte_size(text: str) -> int:
    """Bytes of `1073741824`, `512Mi`, `2G`.

    Raises:
        argparse.ArgumentTypeError: Not of that form, or zero.
    """
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write bytes, or like 512Mi")
    return size


def _device(text: str) -> Device:
    try:
        return Device(text.lower())
    except ValueError:
        known = ", ".join(Device)
        raise argparse.ArgumentTypeError(f"{text!r} is unknown; choose one of {known}") from None


class _Parser(argparse.ArgumentParser):
    """Reports a mistake as an exception, not as usage text."""

    @override
    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message} (see {COMMAND} {SUBCOMMAND} --help)")


def _parser() -> argparse.ArgumentParser:
    root = _Parser(prog=COMMAND, description="LLM inference engine with live-tunable batching.")
    commands = root.add_subparsers(required=True, metavar=SUBCOMMAND)
    serve = commands.add_parser(
        SUBCOMMAND, help="serve one model over the OpenAI API", allow_abbrev=False
    )
    for title, rows in _GROUPS.items():
        group = serve.add_argument_group(title)
        for flag, kind, default, text in rows:
            group.add_argument(flag, type=kind, default=default, help=text, metavar=_metavar(kind))
    return root


def _metavar(kind: Callable[[str], Any]) -> str:
    names = {byte_size: "BYTES", seconds: "SECONDS", Path: "PATH", _device: "DEVICE", str: "TEXT"}
    return names.get(kind, "N")


def _log_level(text: str) -> str:
    if text.lower() not in LOG_LEVELS:
        known = ", ".join(LOG_LEVELS)
        raise argparse.ArgumentTypeError(f"{text!r} is unknown; choose one of {known}")
    return text.lower()


Row = tuple[Flag, Callable[[str], Any], Any, str]
_port = _count(0, 65_535)

_GROUPS: Final[dict[str, tuple[Row, ...]]] = {
    "model and device": (
        (Flag.MODEL, str, None, "GGUF file or Hugging Face directory; optional if simulated"),
        (Flag.SERVED_NAME, str, None, "name that clients use (default: from the path)"),
        (Flag.DEVICE, _device, Device.AUTO, "auto, cpu, cuda or simulated (default: auto)"),
        (Flag.PROFILE, str, None, "simulated: named step-time law"),
        (
            Flag.STEP_COEFFICIENTS,
            str,
            None,
            "simulated: law as base_ms=9.8,per_token_ms=0.05[,per_kv_token_ms=..,floor_ms=..,"
            "floor_per_token_ms=..]",
        ),
        (Flag.LOAD_SECONDS, seconds, 0.0, "simulated: pretended load time (default: 0)"),
        (Flag.THREADS, _count(1, 1024), None, "compute threads (default: usable CPUs)"),
    ),
    "capacity, fixed at start": (
        (Flag.MAX_MODEL_LEN, _count(2), None, "prompt plus output tokens of one request"),
        (
            Flag.MAX_NUM_BATCHED_TOKENS,
            _count(1),
            None,
            "ceiling of tokens in one step (default: 2048 simulated, 512 on CPU)",
        ),
        (Flag.MAX_NUM_SEQS, _count(1), 64, "ceiling of running sequences (default: 64)"),
        (Flag.BLOCK_SIZE, _count(1, 1024), 16, "tokens in a KV block (default: 16)"),
        (Flag.KV_CACHE_MEMORY, byte_size, None, "memory of the KV cache (default: what fits)"),
    ),
    "live knobs at start": (
        (Flag.INITIAL_BATCHED_TOKENS, _count(1), None, "token budget (default: the ceiling)"),
        (Flag.INITIAL_RUNNING_SEQS, _count(1), None, "running cap (default: the ceiling)"),
        (Flag.TUNABLES_DIR, Path, None, "directory whose tunables.json overrides both"),
    ),
    "ports and access": (
        (Flag.HOST, str, "0.0.0.0", "address to listen on (default: all)"),  # noqa: S104 a server
        (Flag.PORT, _port, API_PORT, f"OpenAI API (default: {API_PORT}; 0: any free port)"),
        (Flag.HEALTH_PORT, _port, HEALTH_PORT, f"health, metrics (default: {HEALTH_PORT})"),
        (Flag.ADMIN_PORT, _port, ADMIN_PORT, f"admin (default: {ADMIN_PORT})"),
        (Flag.API_KEY_FILE, Path, None, "file with API keys, one a line (default: open)"),
        (
            Flag.ADMIN_TOKEN_FILE,
            Path,
            None,
            "file with the admin port's bearer token (default: none, and loopback only)",
        ),
    ),
    "limits and drain": (
        (Flag.DRAIN_SECONDS, seconds, 300.0, "for running requests after the grace"),
        (Flag.DRAIN_GRACE_SECONDS, seconds, 5.0, "unready but accepting (default: 5)"),
        (Flag.MAX_QUEUED_REQUESTS, _count(1), 1024, "requests without a first token"),
        (Flag.MAX_QUEUED_TOKENS, _count(1), 1_000_000, "prompt tokens of those"),
        (Flag.MAX_BODY_BYTES, byte_size, 8 * 1024 * 1024, "largest request body (default: 8Mi)"),
        (Flag.LOG_LEVEL, _log_level, "info", f"{', '.join(LOG_LEVELS)} (default: info)"),
    ),
}
