from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from paceline_engine.request import CacheScope
from paceline_engine.server.caller import Caller, key_digest, read_caller
from paceline_engine.server.errors import BadRequestError


def caller(headers: dict[str, str], *, trust: bool = False, salt: str | None = None) -> Caller:
    return read_caller(Headers(headers), "r1", trust_tenant=trust, cache_salt=salt)


def test_nothing_given() -> None:
    assert caller({}) == Caller(request_id="r1")


def test_the_tenant_counts_only_where_it_is_trusted() -> None:
    headers = {"X-Paceline-Tenant": "acme"}
    assert caller(headers, trust=True).cache_scope.tenant == "acme"
    assert caller(headers).cache_scope.tenant == ""
    assert caller({"X-Paceline-Tenant": "bad name"}).cache_scope.tenant == ""


def test_scope_is_a_digest_of_the_key() -> None:
    scope = caller({"authorization": "Bearer s3cret"}, salt="pepper").cache_scope
    assert scope == CacheScope(scope=key_digest("s3cret"), salt="pepper")
    assert len(scope.scope) == 16
    assert "s3cret" not in repr(scope)
    assert key_digest("other") != scope.scope


@pytest.mark.parametrize(("text", "seconds"), [("1", 0.001), ("1500", 1.5), ("86400000", 86400)])
def test_a_deadline(text: str, seconds: float) -> None:
    assert caller({"x-paceline-deadline-ms": text}).deadline_s == seconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("x-paceline-deadline-ms", text) for text in ("0", "-1", "1.5", "", "x", "9" * 9, "²")),
        *(("x-paceline-tenant", text) for text in ("a b", "ü", "a" * 129)),
    ],
)
def test_a_malformed_header(name: str, value: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        caller({name: value}, trust=True)
    assert refused.value.param == name


@pytest.mark.parametrize("name", ["x-paceline-deadline-ms", "x-paceline-tenant", "authorization"])
def test_a_header_given_twice(name: str) -> None:
    raw = [(name.encode(), b"7"), (name.encode(), b"7")]
    with pytest.raises(BadRequestError, match="given 2 times") as refused:
        read_caller(Headers(raw=raw), "r1", trust_tenant=True, cache_salt=None)
    assert refused.value.param == name
    assert refused.value.status == 400
