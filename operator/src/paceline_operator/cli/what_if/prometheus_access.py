"""How `what-if` is let in by a Prometheus server: secrets come from files, never from arguments."""

from __future__ import annotations

import ssl
from pathlib import Path

from yarl import URL

from paceline_operator.cli.errors import CliError
from paceline_operator.metrics.query_api import Access


def read_access(url: str, token_file: Path | None, ca_file: Path | None) -> Access:
    """Reads the files.

    Args:
        url: Address of the server.
        token_file: With a bearer token, None without.
        ca_file: With the authorities to trust, PEM; None for the system's.

    Raises:
        CliError: The address is none, a file cannot be used, or one does not go with the other.
    """
    token = None if token_file is None else _token(token_file)
    if token is not None and "@" in _address(url).authority:
        raise CliError(
            "the address has a user, --prometheus-token-file has a token; give one of them"
        )
    return Access(token=token, trust=None if ca_file is None else _trust(url, ca_file))


def _address(text: str) -> URL:
    try:
        return URL(text)
    except ValueError as error:
        raise CliError(f"--prometheus: {text!r} is no address: {error}") from error


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise CliError(f"--prometheus-token-file: {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise CliError(
            f"--prometheus-token-file: {file} has no bearer token: one word on one line is expected"
        )
    return token


def _trust(url: str, file: Path) -> ssl.SSLContext:
    if not url.startswith("https:"):
        raise CliError("--prometheus-ca-file is for an https address")
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        said = error.strerror if error.filename or not isinstance(error, ssl.SSLError) else "no PEM"
        raise CliError(
            f"--prometheus-ca-file: {file}: {said}: name a PEM file of authorities"
        ) from error
