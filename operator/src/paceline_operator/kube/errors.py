"""Errors of the Kubernetes API, typed.

KubeError
    NotFoundError      404
    ConflictError      409: someone else wrote first; read again
    UnauthorizedError  401: a login is missing, or not valid any more
    ForbiddenError     403: a right is missing
    InvalidError       400, 422, some 500: the object is refused; trying again does not help
    UnavailableError   429, 5xx, no connection: try again later
    LeaseLostError     this process must not write any more
"""

from __future__ import annotations


class KubeError(Exception):
    """Root of the tree; the text is one line for people.

    Attributes:
        said: What the server says itself, empty where it says nothing.
    """

    said: str = ""


class NotFoundError(KubeError):
    """The object does not exist."""


class ConflictError(KubeError):
    """The object changed since it was read, or another manager owns a field."""


class UnauthorizedError(KubeError):
    """The server does not know the caller, or not any more."""


class ForbiddenError(KubeError):
    """The caller lacks a right."""


class InvalidError(KubeError):
    """The server refuses the object as it is."""


class UnavailableError(KubeError):
    """The server is busy or cannot be reached."""


class LeaseLostError(KubeError):
    """Another process may be the leader by now."""


_BY_STATUS: dict[int, type[KubeError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    429: UnavailableError,
}


_REFUSED_AS_A_FAILURE = ("failed to create typed patch object", "field not declared in schema")
"""What a server says with a 500 of an applied object that does not fit its schema."""


def from_status(status: int, message: str) -> KubeError:
    """The error of an HTTP status, and of what the server says where the status misleads."""
    if status == 500 and any(words in message for words in _REFUSED_AS_A_FAILURE):
        return InvalidError(message)
    kind = UnavailableError if status >= 500 else _BY_STATUS.get(status, KubeError)
    return kind(message)
