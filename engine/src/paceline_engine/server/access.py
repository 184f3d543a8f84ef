"""Bearer tokens, kept in files and read again when the files change."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers

from paceline_engine.server.header import only

AUTHORIZATION: Final = "authorization"
Stamp = tuple[int, int, int]


class TokenFileError(Exception):
    """The file cannot be read or holds no token; the message is one line."""


def bearer_token(authorization: str | None) -> str | None:
    """Token of an `Authorization: Bearer` header; None where there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def given_token(headers: Headers) -> str | None:
    """Token of a call; None where there is none.

    Raises:
        BadRequestError: The header is given twice.
    """
    return bearer_token(only(headers, AUTHORIZATION))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class TokenFile:
    """Tokens of one file, one a line; blank lines do not count.

    A file that is replaced takes effect with the next check; one that vanishes or is
    emptied lets nobody in.

    Raises:
        TokenFileError: At the start, where the file is unreadable or empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: Stamp | None = None
        self._digests: tuple[bytes, ...] = ()
        self._load()

    def accepts(self, token: str | None) -> bool:
        """Whether the token is one of the file's; takes the same time for any token."""
        self._refresh()
        given = _digest(token or "")
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        return token is not None and any(matches)

    def _refresh(self) -> None:
        try:
            if self._current_stamp() != self._stamp:
                self._load()
        except (OSError, TokenFileError):
            self._stamp, self._digests = None, ()

    def _current_stamp(self) -> Stamp:
        status = self._path.stat()
        return (status.st_mtime_ns, status.st_ino, status.st_size)

    def _load(self) -> None:
        try:
            stamp = self._current_stamp()
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise TokenFileError(f"cannot read token file {self._path}: {reason}") from error
        tokens = [line.strip() for line in lines if line.strip()]
        if not tokens:
            raise TokenFileError(f"token file {self._path} is empty; put a token in it")
        self._stamp, self._digests = stamp, tuple(_digest(token) for token in tokens)
