"""The last agreed tunables, from the mounted ConfigMap; read once, at start."""

from __future__ import annotations

from pathlib import Path

from paceline_engine.server.admin_wire import TunablesRequest
from paceline_engine.server.errors import BadRequestError
from paceline_engine.server.flags import TUNABLES_FILE
from paceline_engine.server.validation import parse_body


class StartValuesError(Exception):
    """The file is there and cannot be used; the message is one line."""


def read_start_values(directory: Path) -> TunablesRequest | None:
    """Reads `tunables.json` of the directory; None where there is none.

    Raises:
        StartValuesError: It cannot be read or is malformed.
    """
    path = directory / TUNABLES_FILE
    try:
        return parse_body(TunablesRequest, path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartValuesError(f"cannot read {path}: {error.strerror}") from error
    except BadRequestError as error:
        raise StartValuesError(f"{path} is malformed: {error.message}") from error
