"""The edge of the plug-in: what went wrong becomes one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from paceline_operator.cli.errors import CliError

FAILED = 1
UNANSWERED = 2
"""Of commands whose answer itself may be a 1, as with `kubectl diff`."""
INTERRUPTED = 130


@contextmanager
def guarded(failed: int = FAILED) -> Iterator[None]:
    """Ends the program in an orderly way.

    Args:
        failed: Exit code of an error.
    """
    try:
        yield
    except CliError as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(failed) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
