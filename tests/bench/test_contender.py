"""Both servers get the same threads, and a result is never overwritten."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.contender import PACELINE, TRANSFORMERS, environment
from bench.machine import facts
from bench.quick import save

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_both_compute_with_the_threads_of_the_facts() -> None:
    assert environment(3)["OMP_NUM_THREADS"] == "3"
    command = PACELINE.command(Path("model"), [1, 2, 3], 3)
    assert command[command.index("--threads") + 1] == "3"
    assert "--threads" not in TRANSFORMERS.command(Path("model"), [1, 2, 3], 3)
    assert facts(3)["threads of either server"] == "3"


def test_a_rerun_never_overwrites_a_result(tmp_path: Path) -> None:
    first = save(tmp_path, NOW, {}, "first")
    second = save(tmp_path, NOW.replace(second=6), {}, "second")
    with pytest.raises(FileExistsError):
        save(tmp_path, NOW, {}, "third")
    assert (first.read_text(), second.read_text()) == ("first", "second")
    assert len(list(tmp_path.iterdir())) == 4
