from __future__ import annotations

from pathlib import Path

import pytest

from bench.conformance import code_digest


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `bench` with a module that imports another, and one that nobody does."""
    package = tmp_path / "bench"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "top.py").write_text("from bench import deep\nimport json\n")
    (package / "deep.py").write_text("VALUE = 1\n")
    (package / "other.py").write_text("")
    monkeypatch.setattr(code_digest, "PLACES", {"bench": tmp_path})
    return package


def fresh(*modules: str) -> str:
    code_digest.digest.cache_clear()
    code_digest._imported.cache_clear()
    return code_digest.digest(*modules)


def test_it_changes_with_what_is_imported_and_with_nothing_else(house: Path) -> None:
    before = fresh("bench.top")
    (house / "other.py").write_text("CHANGED = 1\n")
    assert fresh("bench.top") == before
    (house / "deep.py").write_text("VALUE = 2\n")
    assert fresh("bench.top") != before


def test_order_of_modules_does_not_matter(house: Path) -> None:
    assert fresh("bench.top", "bench.other") == fresh("bench.other", "bench.top")


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    code_digest.digest.cache_clear()
    code_digest._imported.cache_clear()
