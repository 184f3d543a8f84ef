"""Keys of cached blocks: equal only for equal tokens, at the same place, under one scope.

A key is SHA-256 over parts, each written with its kind and its length. So the bytes of two
different tuples differ, and a hit on another's block would be a collision of SHA-256. A
block's key holds that of the block before it; the first one holds model and scope.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from typing import Final

from paceline_engine.request import CacheScope

REVISION: Final = b"R"
TENANT: Final = b"T"
SCOPE: Final = b"S"
SALT: Final = b"C"
PARENT: Final = b"P"
TOKENS: Final = b"B"
_LENGTH_BYTES: Final = 8


@lru_cache(maxsize=64)
def _head(kind: bytes, length: int) -> bytes:
    return kind + length.to_bytes(_LENGTH_BYTES, "big")


def part(kind: bytes, value: bytes) -> bytes:
    """A part as it is hashed: one byte for its kind, its length, its value."""
    return _head(kind, len(value)) + value


def root_bytes(revision: str, scope: CacheScope) -> bytes:
    """What the key before a sequence's first block is made of."""
    named = (
        (REVISION, revision),
        (TENANT, scope.tenant),
        (SCOPE, scope.scope),
        (SALT, scope.salt),
    )
    return b"".join(part(kind, text.encode("utf-8", "surrogatepass")) for kind, text in named)


def block_bytes(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """What the key of a block is made of.

    Args:
        parent: Key of the block before, or the root key.
        token_ids: Tokens of the block, as 64-bit numbers.
    """
    return part(PARENT, parent) + part(TOKENS, array("q", token_ids).tobytes())


def root_key(revision: str, scope: CacheScope) -> bytes:
    """Key before the first block, 32 bytes."""
    return sha256(root_bytes(revision, scope)).digest()


def block_key(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """Key of a block, 32 bytes: the digest of `block_bytes`, which are written in one go here."""
    packer, parent_head, tokens_head = _layout(len(parent), len(token_ids))
    return sha256(packer.pack(parent_head, parent, tokens_head, *token_ids)).digest()


@lru_cache(maxsize=64)
def _layout(parent_bytes: int, num_tokens: int) -> tuple[Struct, bytes, bytes]:
    head = 1 + _LENGTH_BYTES
    packer = Struct(f"={head}s{parent_bytes}s{head}s{num_tokens}q")
    tokens_bytes = num_tokens * array("q").itemsize
    return packer, _head(PARENT, parent_bytes), _head(TOKENS, tokens_bytes)
