from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from paceline_engine.server.flag_values import (
    block_size,
    byte_size,
    ratio,
    seconds_or,
    switch,
    weights,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("2K", 2000), ("512Mi", 512 << 20), ("1Gi", 1 << 30), ("3GB", 3 * 10**9)],
)
def test_sizes(text: str, size: int) -> None:
    assert byte_size(text) == size


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (block_size, "8", 8),
        (block_size, "24", 24),
        (block_size, "1024", 1024),
        (switch, "On", True),
        (switch, "off", False),
        (seconds_or("keep"), "keep", None),
        (seconds_or("off"), "OFF", None),
        (seconds_or("off"), "2.5", 2.5),
        (ratio(1, 8), "8", 8.0),
        (weights, "a=2", (("a", 2.0),)),
        (weights, "a=2, b=0.5", (("a", 2.0), ("b", 0.5))),
        (weights, "k=v=3", (("k=v", 3.0),)),
    ],
)
def test_values(kind: Callable[[str], Any], text: str, value: object) -> None:
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((byte_size, text) for text in ("", "0", "-1", "1.5Gi", "Gi", "1 Gi", "1gi")),
        *((block_size, text) for text in ("0", "4", "15", "2048", "-8", "eight")),
        *((switch, text) for text in ("", "true", "1")),
        *((seconds_or("off"), text) for text in ("", "0", "-1", "nan", "86401", "never")),
        *((ratio(1, 8), text) for text in ("", "nan", "0.9", "9", "inf")),
        *((weights, text) for text in ("", "a", "a=", "=1", "a=0", "a=-1", "a=nan", "a=1,a=2")),
        *((weights, text) for text in ("a=1,", "a=1001", "a b=1", "\u00e4=1")),
    ],
)
def test_no_values(kind: Callable[[str], Any], text: str) -> None:
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        kind(text)


@pytest.mark.parametrize(("given", "near"), [("12", 16), ("1", 8), ("33", 32), ("5000", 1024)])
def test_a_wrong_block_size_names_one_that_would_do(given: str, near: int) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"{near} is near"):
        block_size(given)
