"""Entry point of the engine process; see `paceline_engine.engine`."""

from __future__ import annotations

import sys

import msgspec

from paceline_engine import log
from paceline_engine.config import EngineConfig
from paceline_engine.engine.channel import Channel
from paceline_engine.engine.parent import die_with, ignore_terminal_signals
from paceline_engine.engine.process import serve


def main(address: str, parent_pid: str, log_level: str = "info") -> int:
    """Serves the server process `parent_pid` at `address`; returns the exit code."""
    log.configure(log_level, "engine")
    ignore_terminal_signals()
    die_with(int(parent_pid))
    config = msgspec.json.decode(sys.stdin.buffer.read(), type=EngineConfig)
    channel = Channel(address)
    try:
        return serve(config, channel)
    finally:
        channel.close()


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
