"""What a process of the engine writes to stderr: one level for every logger, and no contents.

The level holds for each logger of the process, those of libraries with handlers of their own
too. Libraries are heard from warnings on only, since what they tell of their work may hold what
they work on. For the same reason an exception is written as its kind and its places: its text
may hold a prompt.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Any, Final

from typing_extensions import override

OWN: Final = "paceline_engine"


def configure(level: str, prefix: str) -> None:
    """Sets this process's logging up, once, before it does anything else.

    Args:
        level: `debug`, `info`, `warning` or `error`: the least severe that is written.
        prefix: Begins each line.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PlacesOnly(f"{prefix}: %(levelname)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(least, logging.WARNING))
    logging.getLogger(OWN).setLevel(least)
    logging.disable(least - 1)  # whatever levels and handlers a library gives its loggers
    logging.captureWarnings(capture=True)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR" if level == "error" else "WARNING")
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread
    sys.unraisablehook = _log_unraisable


def places(error: BaseException) -> str:
    """Kind of an exception and where it was raised, line by line, without its text."""
    where = "".join(traceback.format_tb(error.__traceback__))
    return f"{type(error).__name__} at\n{where}".rstrip()


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Exception handler of the event loop, whose own one writes out what callbacks were given."""
    error = context.get("exception")
    message = context.get("message") or "unhandled error in the event loop"
    log = logging.getLogger(OWN)
    log.error("%s%s", message.partition("(")[0], f": {places(error)}" if error else "")


class _PlacesOnly(logging.Formatter):
    @override
    def formatException(self, ei: Any) -> str:
        return places(ei[1]) if ei[1] is not None else ""


def _log_uncaught_in_thread(uncaught: threading.ExceptHookArgs) -> None:
    if uncaught.exc_value is not None:
        _log_uncaught(uncaught.exc_type, uncaught.exc_value, uncaught.exc_traceback)


def _log_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """What a finaliser or a callback of C code raised; the default hook shows the object too."""
    if unraisable.exc_value is not None:
        logging.getLogger(OWN).error("nobody could be told of %s", places(unraisable.exc_value))


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger(OWN).critical("ended by %s", places(error.with_traceback(trace)))
