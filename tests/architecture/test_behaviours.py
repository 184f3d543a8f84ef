"""The page of behaviours: nothing marked is left out, and a bad marker is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.behaviours import ENGINE, OPERATOR, MalformedMarkerError, stale, text

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


def tree(root: Path, source: str) -> Path:
    (root / "tests/engine/server").mkdir(parents=True)
    (root / "tests/engine/server/test_stops.py").write_text(source)
    return root


def test_each_marked_test_is_a_line(tmp_path: Path) -> None:
    found = text(tree(tmp_path, MARKED), ENGINE)
    assert "## server" in found
    assert (
        "| a stop string \\| never leaks | vllm #3574: spread over tokens "
        "| `engine/server/test_stops.py::test_stop` |"
    ) in found
    assert "| an abort frees blocks | sglang #6888: leak |" in found
    assert "test_plain" not in found


def test_each_page_has_its_own_tests(tmp_path: Path) -> None:
    root = tree(tmp_path, MARKED)
    (root / "tests/operator/kube").mkdir(parents=True)
    (root / "tests/operator/kube/test_it.py").write_text(MARKED)
    found = text(root, OPERATOR)
    assert "## kube" in found
    assert "operator/kube/test_it.py::test_stop" in found
    assert "engine/" not in found


@pytest.mark.parametrize("arguments", ["'a'", "'a', report=REPORT", "'a', 'b', 'c'", ""])
def test_a_marker_without_plain_texts_is_named(tmp_path: Path, arguments: str) -> None:
    source = f"import pytest\n@pytest.mark.behaviour({arguments})\ndef test_it(): ...\n"
    with pytest.raises(MalformedMarkerError, match=r"test_stops\.py:2"):
        text(tree(tmp_path, source), ENGINE)


def test_a_page_that_is_missing_or_old_is_told(tmp_path: Path) -> None:
    root = tree(tmp_path, MARKED)
    assert stale(root, ENGINE) == [f"{ENGINE.path} is missing"]
    (root / "docs").mkdir()
    (root / ENGINE.path).write_text(text(root, ENGINE))
    assert stale(root, ENGINE) == []
    (root / "tests/engine/server/test_stops.py").write_text(MARKED.replace("never", "seldom"))
    assert any("seldom" in line for line in stale(root, ENGINE))
