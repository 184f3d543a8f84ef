"""What must not be in the project: machine paths, registry hosts, unpinned versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.tree import ROOT, tracked

TEXT = (".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".go", ".cpp", ".h", ".sh", ".json", "")
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:work|farm|root)/")
REGISTRY_HOST = re.compile(
    r"https?://[\w.-]*(?:pypi|pythonhosted|npmjs|crates\.|maven|proxy\.golang|ghcr\.io|docker\.io)"
)


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_HOST], ids=["path", "registry"])
def test_no_text_file_names(pattern: re.Pattern[str]) -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in tracked(*TEXT)
        if path != Path(__file__) and pattern.search(path.read_text(errors="replace"))
    ]
    assert found == []


@pytest.mark.parametrize("member", ["operator", "engine"])
def test_constraints_pin_every_version(member: str) -> None:
    lines = (ROOT / member / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+-]+", line)] == []


def test_operator_needs_no_torch() -> None:
    names = (ROOT / "operator" / "constraints.txt").read_text()
    assert "torch" not in names
    assert "paceline-engine" not in names
