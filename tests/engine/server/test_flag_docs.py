"""docs/engine.md describes every flag with the default that the command has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline_engine.config import Device
from paceline_engine.engine.revision import PIECE_BYTES
from paceline_engine.memory import SLACK_RATIO
from paceline_engine.runner.memory_plan import DEFAULT_KV_BYTES
from paceline_engine.runner.memory_room import QUEUED_TOKEN_BYTES
from paceline_engine.scheduler.running import MAX_PREEMPTIONS
from paceline_engine.server.drain_rate import LEAST_RETRY_S, MOST_RETRY_S
from paceline_engine.server.flag_table import GROUPS, Row
from paceline_engine.server.flag_values import byte_size
from paceline_engine.server.flags import AdminPath, Flag
from paceline_engine.server.level import BATCH_SHARE
from paceline_engine.server.presets import PRESETS, TuneFor, described

PAGE = (Path(__file__).parents[3] / "docs" / "engine.md").read_text(encoding="utf-8")
# The first row of each: those after it are measurements.
ROWS = dict(reversed(re.findall(r"^\| `(--[a-z-]+)` \| (.+) \|$", PAGE, re.MULTILINE)))


@pytest.mark.parametrize("flag", list(Flag))
def test_every_flag_has_its_row(flag: Flag) -> None:
    cells = ROWS[flag].split(" | ")
    assert len(cells) == 3, "default, what it does, effect"
    assert all(cell.strip() for cell in cells)


def test_no_row_is_about_a_flag_that_is_gone() -> None:
    assert set(ROWS) <= set(Flag)


@pytest.mark.parametrize("row", [row for rows in GROUPS.values() for row in rows])
def test_defaults_are_those_of_the_command(row: Row) -> None:
    """Where a default is a number, a switch or a word, the page states it."""
    stated = ROWS[row.flag].split(" | ")[0].strip("`")
    if row.kind is byte_size:
        assert row.default is None or byte_size(stated) == row.default
    elif isinstance(row.default, bool):
        assert stated == ("on" if row.default else "off")
    elif isinstance(row.default, int | float):
        assert float(stated) == row.default
    elif isinstance(row.default, Device):
        assert stated == row.default


@pytest.mark.parametrize("preset", list(TuneFor))
def test_presets_are_written_out(preset: TuneFor) -> None:
    assert f"`{preset}`: {described(preset)}" in PAGE
    assert all(flag in PAGE for flag in PRESETS[preset])


@pytest.mark.parametrize("path", list(AdminPath))
def test_admin_paths_are_named(path: AdminPath) -> None:
    assert path in PAGE


def test_numbers_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"after {MAX_PREEMPTIONS} such turns" in text
    assert f"may fill {BATCH_SHARE:.0%}".replace("%", " %") in text
    assert f"({LEAST_RETRY_S} to {MOST_RETRY_S})" in text
    assert f"of which {SLACK_RATIO:.0%} stay".replace("%", " %") in text
    assert f"up to {DEFAULT_KV_BYTES >> 30} GiB" in text
    assert f"{QUEUED_TOKEN_BYTES} bytes each" in text
    assert f"pieces of {PIECE_BYTES >> 20} MiB" in text
