"""The edge of the plug-in: what went wrong becomes one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from paceline_operator.cli.errors import CliError

FAILED = 1
INTERRUPTED = 130


@contextmanager
def guarded() -> Iterator[None]:
    """Ends the program in an orderly way."""
    try:
        yield
    except CliError as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
