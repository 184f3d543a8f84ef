"""Keys of cached blocks: equal only for equal tokens, at the same place, under one scope.

A key is SHA-256 over parts, each written with its kind and its length. So the bytes of two
different tuples differ, and a hit on another's block would be a collision of SHA-256. A
block's key holds that of the block before it; the first one holds model and scope.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import Enum
from hashlib import sha256
from typing import Final

from paceline_engine.request import CacheScope

_LENGTH_BYTES: Final = 8


class Kind(Enum):
    """What a part of a key is; one byte each."""

    REVISION = b"R"
    TENANT = b"T"
    SCOPE = b"S"
    SALT = b"C"
    PARENT = b"P"
    TOKENS = b"B"


def part(kind: Kind, value: bytes) -> bytes:
    """A part as it is hashed: kind, length, value."""
    return kind.value + len(value).to_bytes(_LENGTH_BYTES) + value


def root_bytes(revision: str, scope: CacheScope) -> bytes:
    """What the key before a sequence's first block is made of."""
    named = (
        (Kind.REVISION, revision),
        (Kind.TENANT, scope.tenant),
        (Kind.SCOPE, scope.scope),
        (Kind.SALT, scope.salt),
    )
    return b"".join(part(kind, text.encode("utf-8", "surrogatepass")) for kind, text in named)


def block_bytes(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """What the key of a block is made of.

    Args:
        parent: Key of the block before, or the root key.
        token_ids: Tokens of the block, as 64-bit numbers.
    """
    tokens = array("q", token_ids).tobytes()
    return part(Kind.PARENT, parent) + part(Kind.TOKENS, tokens)


def root_key(revision: str, scope: CacheScope) -> bytes:
    """Key before the first block, 32 bytes."""
    return sha256(root_bytes(revision, scope)).digest()


def block_key(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """Key of a block, 32 bytes; see `block_bytes`."""
    return sha256(block_bytes(parent, token_ids)).digest()
