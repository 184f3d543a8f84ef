from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline_engine.server.flags import TUNABLES_FILE
from paceline_engine.server.start_values import StartValuesError, read_start_values
from paceline_engine.server.tunables import Tunables
from tests.support.engine_config import engine_config

VALUES = {"revision": 4, "maxNumBatchedTokens": 128, "maxNumRunningSeqs": 4}


def write(folder: Path, content: object) -> Path:
    (folder / TUNABLES_FILE).write_text(json.dumps(content))
    return folder


def test_what_was_agreed_is_in_force_from_the_start(tmp_path: Path) -> None:
    start = read_start_values(write(tmp_path, {**VALUES, "stepTimeTargetMs": 20.0}))
    assert start is not None
    assert start.step_time_target_ms == 20.0
    assert not Tunables(engine_config(), start).is_new(start)


def test_none_and_broken(tmp_path: Path) -> None:
    assert read_start_values(tmp_path) is None
    for wrong in ([], {**VALUES, "stepTimeTargetMs": 0}):
        with pytest.raises(StartValuesError, match="malformed"):
            read_start_values(write(tmp_path, wrong))
