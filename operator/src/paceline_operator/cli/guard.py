"""The edge of the plug-in: how it ends, by which exit code, and what it says then."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from paceline_operator.cli.errors import CliError
from paceline_operator.cli.exit_code import FAILED, INTERRUPTED
from paceline_operator.cli.plain_text import one_line


@contextmanager
def guarded(failed: int = FAILED) -> Iterator[None]:
    """Ends the program in an orderly way.

    A defect keeps its traceback, and has the exit code of an error too: the interpreter's own 1
    may be an answer.

    Args:
        failed: Exit code of an error.
    """
    try:
        yield
        sys.stdout.flush()  # else the interpreter would find out later that it cannot be written
    except CliError as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        raise typer.Exit(failed) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.Abort, typer.TyperException):
        raise  # they end a program in an orderly way themselves
    except Exception as error:
        traceback.print_exc()
        raise typer.Exit(failed) from error
