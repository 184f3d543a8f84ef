"""The command line of `paceline-engine serve`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from paceline_engine.config import Device
from paceline_engine.server.flag_table import GROUPS
from paceline_engine.server.flags import COMMAND, SUBCOMMAND, Flag
from paceline_engine.server.presets import TuneFor, preset_values
from paceline_engine.server.queue_rule import QueueRule


class OptionError(Exception):
    """A flag is wrong; the message is one line naming it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Flags as given; None where the start-up decides. Fields are named as their flags.

    Attributes:
        preset: (flag, value) that `--tune-for` set, because the user gave none.
    """

    tune_for: TuneFor | None
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
    prefix_caching: bool
    prefix_cache_retention_seconds: float | None
    batch_weight: float
    interactive_max_wait_seconds: float
    batch_max_wait_seconds: float
    tenant_weights: tuple[tuple[str, float], ...]
    trust_tenant_header: bool
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
    max_queue_seconds: float | QueueRule | None
    max_projected_kv: float
    max_body_bytes: int
    request_log: str | None
    log_level: str
    preset: tuple[tuple[Flag, int | float], ...] = ()


def parse(arguments: Sequence[str]) -> ServeOptions:
    """Reads the arguments after the command's name; a repeated flag's last value holds.

    Raises:
        OptionError: An unknown flag, a malformed value, or no subcommand.
        SystemExit: After `--help`.
    """
    given = vars(_parser().parse_args(list(arguments)))
    preset = preset_values(
        given.get(_field(Flag.TUNE_FOR)),
        given.get(_field(Flag.DEVICE), Device.AUTO),
        {flag for flag in Flag if _field(flag) in given},
    )
    defaults = {_field(row.flag): row.default for rows in GROUPS.values() for row in rows}
    chosen = {_field(flag): value for flag, value in preset.items()}
    return ServeOptions(**(defaults | chosen | given), preset=tuple(preset.items()))


def _field(flag: Flag) -> str:
    return flag.removeprefix("--").replace("-", "_")


class _Parser(argparse.ArgumentParser):
    """Reports a mistake as an exception, not as usage text."""

    @override
    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message} (see {COMMAND} {SUBCOMMAND} --help)")


def _parser() -> argparse.ArgumentParser:
    """Leaves a flag that is not given out of its answer: defaults come after presets."""
    root = _Parser(prog=COMMAND, description="LLM inference engine with live-tunable batching.")
    commands = root.add_subparsers(required=True, metavar=SUBCOMMAND)
    serve = commands.add_parser(
        SUBCOMMAND,
        help="serve one model over the OpenAI API",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for title, rows in GROUPS.items():
        group = serve.add_argument_group(title)
        for row in rows:
            group.add_argument(row.flag, type=row.kind, help=row.help, metavar=row.shown)
    return root
