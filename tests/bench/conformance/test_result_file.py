from __future__ import annotations

from pathlib import Path

import pytest

from bench.conformance import result_file
from bench.conformance.result_file import ResultError
from tests.bench.conformance.test_report import evaluation


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(result_file.dump(evaluation()))
    assert result_file.load(path) == evaluation()


def test_each_cell_has_its_line() -> None:
    text = result_file.dump(evaluation())
    assert sum('"policy"' in line for line in text.splitlines()) == len(evaluation().scores)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"madeAt": 1}'])
def test_what_is_no_result_is_told_in_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultError, match=r"^other\.json is no result of this version: ") as found:
        result_file.load(path)
    assert "\n" not in str(found.value)


def test_a_result_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"^missing\.json "):
        result_file.load(tmp_path / "missing.json")
