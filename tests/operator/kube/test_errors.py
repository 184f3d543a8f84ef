"""Which error an answer of the API server becomes."""

from __future__ import annotations

import pytest

from paceline_operator.kube.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    from_status,
)

TYPO = (
    "failed to create typed patch object (d/chat; apps/v1, Kind=Deployment): "
    ".spec.template.spec.tolerationz: field not declared in schema"
)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "", InvalidError),
        (401, "", UnauthorizedError),
        (403, "", ForbiddenError),
        (404, "", NotFoundError),
        (409, "", ConflictError),
        (418, "", KubeError),
        (422, "", InvalidError),
        (429, "", UnavailableError),
        (500, "etcdserver: request timed out", UnavailableError),
        (503, TYPO, UnavailableError),
        (500, TYPO, InvalidError),
        (500, ".spec.template.spec.x: field not declared in schema", InvalidError),
        (500, "failed to create typed patch object: expected list, got map", InvalidError),
    ],
)
def test_the_error_of_an_answer(status: int, message: str, kind: type[KubeError]) -> None:
    error = from_status(status, message)
    assert type(error) is kind
    assert str(error) == message


def test_no_caller_that_handles_a_missing_right_takes_a_refused_login_for_one() -> None:
    assert not issubclass(UnauthorizedError, ForbiddenError)
    assert not issubclass(ForbiddenError, UnauthorizedError)
