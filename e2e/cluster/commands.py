"""Calling other programs, with failures turned into one line."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.errors import CommandError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of root; that of a user may lack the places of system programs."""


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 120.0,
    own_session: bool = False,
) -> str:
    """Runs a program and returns its standard output.

    Raises:
        CommandError: It is absent, ended with an error, or took longer than `timeout_s`.
    """
    done = attempt(
        command,
        stdin=stdin,
        environment=environment,
        timeout_s=timeout_s,
        own_session=own_session,
    )
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
    own_session: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a program, whatever comes of it; absence and time-out read as exit 127 and 124.

    Args:
        command: Program and arguments.
        stdin: Its standard input; empty by default.
        environment: Its environment; this process's by default.
        directory: Where it runs.
        timeout_s: It is killed after this long.
        own_session: Whether it is kept from what a terminal or a group is sent.
    """
    try:
        return subprocess.run(
            command,
            input=stdin or "",
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            start_new_session=own_session,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end within {timeout_s:.0f} s")
