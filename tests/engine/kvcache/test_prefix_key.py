"""Two different tuples never give the same bytes to hash, hence never the same key."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.kvcache.prefix_key import (
    PARENT,
    REVISION,
    SALT,
    SCOPE,
    TENANT,
    TOKENS,
    block_bytes,
    block_key,
    part,
    root_bytes,
    root_key,
)
from paceline_engine.request import CacheScope

THOROUGH = settings(max_examples=500, deadline=None)
# Few letters, among them the tags and what lengths look like, so that parts run together.
TEXTS = st.text(st.sampled_from("RTSCPB\x00\x01\x02a"), max_size=4) | st.text(max_size=20)
NAMES = st.tuples(TEXTS, TEXTS, TEXTS, TEXTS)
TOKEN_LISTS = st.lists(st.integers(0, 2**40), max_size=6)
PARENTS = st.binary(max_size=40)


def bytes_of(names: tuple[str, str, str, str]) -> bytes:
    revision, tenant, scope, salt = names
    return root_bytes(revision, CacheScope(tenant=tenant, scope=scope, salt=salt))


def parts_of(written: bytes) -> list[tuple[bytes, bytes]]:
    """Reads the parts back: what can be read back in one way only was written in one way only."""
    parts = []
    while written:
        kind, length = written[:1], int.from_bytes(written[1:9], "big")
        parts.append((kind, written[9 : 9 + length]))
        written = written[9 + length :]
    return parts


@THOROUGH
@given(names=NAMES)
def test_what_a_root_is_made_of_can_be_read_back(names: tuple[str, str, str, str]) -> None:
    kinds = (REVISION, TENANT, SCOPE, SALT)
    assert parts_of(bytes_of(names)) == [
        (kind, name.encode("utf-8", "surrogatepass"))
        for kind, name in zip(kinds, names, strict=True)
    ]


@THOROUGH
@given(parent=PARENTS, tokens=TOKEN_LISTS)
def test_what_a_block_is_made_of_can_be_read_back(parent: bytes, tokens: list[int]) -> None:
    (kind, first), (other, second) = parts_of(block_bytes(parent, tokens))
    assert (kind, first) == (PARENT, parent)
    assert other == TOKENS
    assert memoryview(second).cast("q").tolist() == tokens


@THOROUGH
@given(one=NAMES, other=NAMES, parent=PARENTS, tokens=TOKEN_LISTS)
def test_different_tuples_are_different_bytes(
    one: tuple[str, str, str, str],
    other: tuple[str, str, str, str],
    parent: bytes,
    tokens: list[int],
) -> None:
    assert (bytes_of(one) == bytes_of(other)) is (one == other)
    assert bytes_of(one) != block_bytes(parent, tokens)


@given(parent=PARENTS, tokens=TOKEN_LISTS)
def test_a_key_is_the_digest_of_what_its_block_is_made_of(parent: bytes, tokens: list[int]) -> None:
    assert block_key(parent, tokens) == sha256(block_bytes(parent, tokens)).digest()


@THOROUGH
@given(one=st.tuples(PARENTS, TOKEN_LISTS), other=st.tuples(PARENTS, TOKEN_LISTS))
def test_different_blocks_are_different_bytes(
    one: tuple[bytes, list[int]], other: tuple[bytes, list[int]]
) -> None:
    assert (block_bytes(*one) == block_bytes(*other)) is (one == other)


@pytest.mark.behaviour(
    "revision, tenant, scope and salt are each a part of every prefix key, and none can pass "
    "for another",
    report="vllm #30931, #42125, #3264: adapters of equal or reloaded names shared KV",
)
def test_each_part_alone_changes_every_key() -> None:
    scopes = [
        ("r1", CacheScope(tenant="x")),
        ("r2", CacheScope(tenant="x")),
        ("r1", CacheScope(scope="x")),
        ("r1", CacheScope(salt="x")),
        ("r1x", CacheScope()),
        ("r1", CacheScope()),
        ("r1", CacheScope(tenant="x", scope="x")),
    ]
    keys = {block_key(root_key(revision, scope), [1, 2, 3]) for revision, scope in scopes}
    assert len(keys) == len(scopes)
    assert all(len(key) == 32 for key in keys)


def test_a_key_depends_on_all_tokens_before() -> None:
    root = root_key("r", CacheScope())
    one = block_key(block_key(root, [1, 2]), [5, 6])
    other = block_key(block_key(root, [1, 3]), [5, 6])
    assert one != other


def test_lone_surrogates_are_text_like_any_other() -> None:
    names = [CacheScope(salt="\ud800"), CacheScope(salt="\ud801"), CacheScope(salt="?")]
    assert len({root_key("", scope) for scope in names}) == 3


def test_a_part_begins_with_kind_and_length() -> None:
    assert part(SALT, b"ab") == b"C" + (2).to_bytes(8, "big") + b"ab"
