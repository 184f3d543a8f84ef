"""Which Secret's token is used, and when it is read."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from typing_extensions import override

from paceline_operator.domain.pods import Problem
from paceline_operator.kube.client import Object
from paceline_operator.kube.errors import (
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from paceline_operator.reconcile.admin_secret import AGE_S, refresh
from paceline_operator.reconcile.context import Context
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)

LABELS = {"app.kubernetes.io/managed-by": "paceline", "paceline.dev/service": "chat"}


def secret(token: str | None, version: int, uid: str | None = "u", **metadata: Any) -> Object:
    """A Secret that belongs to an object with this UID."""
    data = {} if token is None else {"token": b64encode(token.encode()).decode()}
    owners = [] if uid is None else [{"uid": uid, "kind": "InferenceService", "name": "chat"}]
    known = {"name": "chat-admin", "namespace": "d", "uid": "s", "labels": LABELS,
             "resourceVersion": str(version), "ownerReferences": owners}  # fmt: skip
    return {"metadata": {**known, **metadata}, "data": data}


class Secrets(FailingApi):
    """An API server with at most this Secret."""

    def __init__(self, item: Object | None) -> None:
        super().__init__()
        self.item, self.reads = item, 0
        self.error: KubeError | None = None

    @override
    async def get(self, path: str, **query: str) -> Object:
        assert path == "/api/v1/namespaces/d/secrets/chat-admin"
        self.reads += 1
        if self.error is not None:
            raise self.error
        if self.item is None:
            raise NotFoundError(path)
        return self.item


def made(item: Object | None) -> tuple[Secrets, Context]:
    api = Secrets(item)
    return api, made_context(api, ObedientEngines(), NoMetrics())


def pass_time(ctx: Context) -> None:
    later_s = ctx.clock() + AGE_S
    ctx.clock = lambda: later_s


async def token_after(ctx: Context) -> str | None:
    await refresh(ctx, KEY, "u", ctx.session(KEY))
    return ctx.session(KEY).token


@pytest.mark.behaviour(
    "nothing is taken from an object that merely has a child's name",
    report="the token of a foreign Secret was used against the engines",
)
@pytest.mark.parametrize("before", ["ours", None], ids=["with a token", "at first"])
@pytest.mark.parametrize(
    "foreign",
    [
        secret("theirs", 7, None, labels={}),
        secret("theirs", 7, None),
        secret("theirs", 7, "of another"),
        secret("theirs", 7, ""),
    ],
    ids=["plain", "with our labels", "of another object", "of none"],
)
async def test_the_token_of_a_foreign_secret_is_never_used(
    before: str | None, foreign: Object
) -> None:
    _, ctx = made(foreign)
    ctx.session(KEY).token = before
    for _ in range(2):
        token = await token_after(ctx)
        assert token == before if before else token not in (None, "", "theirs")
        assert ctx.session(KEY).secret is None


async def test_our_own_is_read_again_after_a_while() -> None:
    api, ctx = made(secret("one", 5))
    assert [await token_after(ctx) for _ in range(3)] == ["one"] * 3
    assert api.reads == 1
    api.item = secret("two", 6)
    assert await token_after(ctx) == "one"
    pass_time(ctx)
    assert [await token_after(ctx) for _ in range(3)] == ["two"] * 3
    assert api.reads == 2


async def test_one_that_was_deleted_keeps_its_token_and_is_missing() -> None:
    api, ctx = made(secret("one", 5))
    await token_after(ctx)
    api.item = None
    pass_time(ctx)
    assert await token_after(ctx) == "one"
    assert ctx.session(KEY).secret is None


async def test_what_took_the_name_is_looked_at_in_every_pass() -> None:
    api, ctx = made(secret("theirs", 5, None, labels={}))
    token = await token_after(ctx)
    await token_after(ctx)
    assert api.reads == 2
    api.item = None
    assert await token_after(ctx) == token
    assert api.reads == 3


async def test_one_without_a_token_gets_one() -> None:
    _, ctx = made(secret(None, 5))
    token = await token_after(ctx)
    assert token
    assert await token_after(ctx) == token


async def test_a_server_that_is_away_leaves_what_is_known() -> None:
    api, ctx = made(secret("one", 5))
    await token_after(ctx)
    ctx.session(KEY).secret, api.error = None, UnavailableError("away")
    assert await token_after(ctx) == "one"


async def test_without_a_token_it_goes_no_further() -> None:
    api, ctx = made(None)
    api.error = UnavailableError("away")
    with pytest.raises(UnavailableError):
        await token_after(ctx)
    assert ctx.session(KEY).token is None


@pytest.mark.behaviour(
    "where the Secret may not be read, a token that is known goes on being used, none is made up, "
    "and the status says so",
    report="a right to read Secrets that was taken away ended every pass without a word",
)
@pytest.mark.parametrize("before", ["one", None], ids=["with a token", "at first"])
async def test_a_secret_that_may_not_be_read_is_told(before: str | None) -> None:
    api, ctx = made(secret("two", 5))
    session = ctx.session(KEY)
    session.token, api.error = before, ForbiddenError("403 secrets is forbidden")
    assert await token_after(ctx) == before
    assert session.missing_right == Problem("MissingRight", "403 secrets is forbidden")
    api.error = None
    assert await token_after(ctx) == "two"
    assert session.missing_right is None


async def test_one_that_may_not_be_read_any_more_is_asked_for_now_and_then() -> None:
    api, ctx = made(secret("one", 5))
    await token_after(ctx)
    known = ctx.session(KEY).secret
    api.error = ForbiddenError("may not")
    pass_time(ctx)
    assert [await token_after(ctx) for _ in range(3)] == ["one"] * 3
    assert api.reads == 2
    assert ctx.session(KEY).secret is known


async def test_a_login_that_is_not_known_just_now_is_no_missing_right() -> None:
    """An API server that has just started says so of everybody for a moment."""
    api, ctx = made(secret("one", 5))
    await token_after(ctx)
    pass_time(ctx)
    api.error = UnauthorizedError("401")
    assert await token_after(ctx) == "one"
    assert ctx.session(KEY).missing_right is None


async def test_without_a_token_it_is_asked_again() -> None:
    api, ctx = made(None)
    api.error = UnauthorizedError("401")
    with pytest.raises(UnauthorizedError):
        await token_after(ctx)
    assert ctx.session(KEY).missing_right is None
