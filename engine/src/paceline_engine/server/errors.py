"""Refusals of the API, each with its status and OpenAI error body.

Everything a client can cause is one of these; anything else is a defect and a 500.
"""

from __future__ import annotations

import json
from typing import Self

from typing_extensions import override


class ApiError(Exception):
    """Base: becomes `{"error": {message, type, param, code}}`.

    Args:
        message: One line for the caller.
        param: Request field that is wrong.
        code: Machine-readable reason.
    """

    status = 400
    error_type = "invalid_request_error"
    code: str | None = None
    retry_after_s: int | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code

    def body(self) -> bytes:
        """JSON body."""
        error = {
            "message": self.message,
            "type": self.error_type,
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": error}).encode()

    def headers(self) -> dict[str, str]:
        """Headers beside the content type."""
        if self.retry_after_s is None:
            return {}
        return {"retry-after": str(self.retry_after_s)}


class BadRequestError(ApiError):
    """A field is missing, malformed, out of range or not supported."""


class UnservableSettingsError(BadRequestError):
    """Each setting is in range, and together they leave nothing to draw."""

    code = "invalid_value"


class ContextLengthError(BadRequestError):
    """The prompt leaves no room for one token."""

    code = "context_length_exceeded"

    @classmethod
    def of(cls, tokens: int, limit: int, param: str, least: str = "") -> Self:
        """Says how long the prompt is and may be.

        Args:
            tokens: Its length.
            limit: Prompt plus output tokens of one request at most.
            param: Field to name.
            least: " at least" where it may be longer.
        """
        return cls(
            f"the context holds {limit} tokens, prompt and output together, and the prompt "
            f"has {tokens}{least}; shorten it to at most {limit - 1}",
            param=param,
        )


class NeverFitsError(BadRequestError):
    """The call is larger than what this engine can ever hold."""

    code = "never_fits"


class UnauthorizedError(ApiError):
    """No bearer token, or a wrong one."""

    status = 401
    code = "invalid_api_key"

    @override
    def headers(self) -> dict[str, str]:
        """Adds the challenge HTTP asks for."""
        return {"www-authenticate": "Bearer"}


class NotFoundError(ApiError):
    """Unknown path."""

    status = 404


class ModelNotFoundError(NotFoundError):
    """Another model than the served one."""

    code = "model_not_found"


class MethodNotAllowedError(ApiError):
    """Known path, other method.

    Args:
        message: One line for the caller.
        allowed: Methods that the path has, as HTTP lists them.
    """

    status = 405

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self._allowed = allowed

    @override
    def headers(self) -> dict[str, str]:
        """Adds the methods that HTTP asks for."""
        return {"allow": self._allowed}


class ConflictError(ApiError):
    """The admin port was told something older than, or other than, what it knows."""

    status = 409


class BodyTooLargeError(ApiError):
    """The body is above the byte limit."""

    status = 413
    code = "body_too_large"


class BodyTimeoutError(ApiError):
    """The body took too long to arrive."""

    status = 408
    code = "body_timeout"


class HeadTooLargeError(ApiError):
    """The request's line and headers are above the byte limit."""

    status = 431
    code = "headers_too_large"


class HeadTimeoutError(ApiError):
    """The request's headers took too long to arrive."""

    status = 408
    code = "headers_timeout"


class OverloadedError(ApiError):
    """Too much is queued.

    Args:
        message: One line for the caller.
        code: Names the limit.
        retry_after_s: When it is worth to come again.
    """

    status = 429
    error_type = "rate_limit_error"
    retry_after_s: int

    def __init__(self, message: str, *, code: str, retry_after_s: int = 1) -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s


class InternalError(ApiError):
    """A defect; the log has the details."""

    status = 500
    error_type = "server_error"
    code = "internal_error"


class UnavailableError(ApiError):
    """Loading, draining, or the engine died; another replica may serve."""

    status = 503
    error_type = "server_error"
    code = "unavailable"
    retry_after_s = 1


class CrowdedError(UnavailableError):
    """As many connections are open as may be."""

    code = "connections"
