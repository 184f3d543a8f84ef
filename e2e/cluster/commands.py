"""Calling other programs, with failures turned into one line."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.errors import CommandError


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 120.0,
) -> str:
    """Runs a program and returns its standard output.

    Raises:
        CommandError: It is absent, ended with an error, or took longer than `timeout_s`.
    """
    done = attempt(command, stdin=stdin, environment=environment, timeout_s=timeout_s)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        words = " ".join(command[:6])
        raise CommandError(f"`{words}` failed: {last}", "the state and logs are kept; see above")
    return done.stdout


def attempt(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    timeout_s: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """Runs a program, whatever comes of it; absence and time-out read as exit 127 and 124."""
    try:
        return subprocess.run(
            command,
            input=stdin,
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end within {timeout_s:.0f} s")
