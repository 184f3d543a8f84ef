from __future__ import annotations

import argparse

import pytest

from paceline_engine.config import ADMIN_PORT, API_PORT, HEALTH_PORT, Device
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import OptionError, ServeOptions, byte_size, parse


def test_defaults() -> None:
    options = parse(["serve"])
    assert (options.port, options.health_port, options.admin_port) == (
        API_PORT,
        HEALTH_PORT,
        ADMIN_PORT,
    )
    assert options.device is Device.AUTO
    assert (options.drain_seconds, options.drain_grace_seconds) == (300, 5)


def test_every_flag_has_its_field() -> None:
    fields = {"--" + name.replace("_", "-") for name in ServeOptions.__dataclass_fields__}
    assert fields == set(Flag)


def test_the_last_of_a_repeated_flag_holds() -> None:
    assert parse(["serve", "--max-num-seqs=8", "--max-num-seqs", "4"]).max_num_seqs == 4


def test_flags_are_not_guessed_from_their_beginnings() -> None:
    with pytest.raises(OptionError, match="--max-num-s"):
        parse(["serve", "--max-num-s=8"])


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("2K", 2000), ("512Mi", 512 << 20), ("1Gi", 1 << 30), ("3GB", 3 * 10**9)],
)
def test_sizes(text: str, size: int) -> None:
    assert byte_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5Gi", "Gi", "1 Gi", "1gi"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        byte_size(text)
