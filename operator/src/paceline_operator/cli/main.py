"""Entry of `kubectl-paceline`.

Exit codes besides those of the commands: 130 where it is interrupted, 141 where nobody reads what
it prints any more, as of a program that SIGPIPE ends.
"""

from __future__ import annotations

import sys

from paceline_operator.cli.exit_code import INTERRUPTED


def main() -> None:
    """Runs the plug-in."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run() -> None:
    # Imported here: they take a second, in which a user may interrupt.
    import logging  # noqa: PLC0415

    from paceline_operator import nesting  # noqa: PLC0415
    from paceline_operator.cli import output  # noqa: PLC0415
    from paceline_operator.cli.commands import app  # noqa: PLC0415
    from paceline_operator.cli.plain_text import one_line  # noqa: PLC0415

    logging.disable(logging.CRITICAL)  # libraries' log lines are not for this user
    nesting.allow()
    output.prepare()
    try:
        app()
    except output.OutputError as error:  # of a help text
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        sys.exit(1)
