"""The page of behaviours: nothing marked is left out, and a bad marker is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.behaviours import PAGE, MalformedMarkerError, page, stale

MARKED = """
import pytest

@pytest.mark.behaviour("a stop string | never leaks", report="vllm #3574: spread over tokens")
@pytest.mark.parametrize("n", [1])
def test_stop(n): ...

class TestMore:
    @pytest.mark.behaviour("an abort frees\\n  blocks", report="sglang #6888: leak")
    async def test_abort(self): ...

def test_plain(): ...
"""


def tree(root: Path, text: str) -> Path:
    (root / "tests/engine/server").mkdir(parents=True)
    (root / "tests/engine/server/test_stops.py").write_text(text)
    return root


def test_each_marked_test_is_a_line(tmp_path: Path) -> None:
    text = page(tree(tmp_path, MARKED))
    assert "## server" in text
    assert (
        "| a stop string \\| never leaks | vllm #3574: spread over tokens "
        "| `engine/server/test_stops.py::test_stop` |"
    ) in text
    assert "| an abort frees blocks | sglang #6888: leak |" in text
    assert "test_plain" not in text


@pytest.mark.parametrize("arguments", ["'a'", "'a', report=REPORT", "'a', 'b', 'c'", ""])
def test_a_marker_without_plain_texts_is_named(tmp_path: Path, arguments: str) -> None:
    text = f"import pytest\n@pytest.mark.behaviour({arguments})\ndef test_it(): ...\n"
    with pytest.raises(MalformedMarkerError, match=r"test_stops\.py:2"):
        page(tree(tmp_path, text))


def test_a_page_that_is_missing_or_old_is_told(tmp_path: Path) -> None:
    root = tree(tmp_path, MARKED)
    assert stale(root) == [f"{PAGE} is missing"]
    (root / "docs").mkdir()
    (root / PAGE).write_text(page(root))
    assert stale(root) == []
    (root / "tests/engine/server/test_stops.py").write_text(MARKED.replace("never", "seldom"))
    assert any("seldom" in line for line in stale(root))
