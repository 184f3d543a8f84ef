"""`make verify` notices what it is there for, and says what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.tree import ROOT
from tests.verify import documents, generated, samples
from tests.verify.__main__ import report
from tests.verify.check import MAX_DIFF_LINES, Check, difference

DEFINITION = "paceline.dev_inferenceservices.yaml"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what is verified, as it is."""
    for part in ("crds", "charts", "manifests"):
        shutil.copytree(ROOT / part, tmp_path / part)
    for file in ("README.md", "operator/pyproject.toml", "engine/pyproject.toml"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("place", generated.COPIES)
def test_an_edited_definition_is_named_with_its_difference(tree: Path, place: str) -> None:
    assert generated.stale(tree, place) == []
    edit(tree / place / DEFINITION, "maximum: 99", "maximum: 98")
    lines = generated.stale(tree, place)
    assert f"--- {place}/{DEFINITION}" in lines
    assert any(line.startswith("-") and "maximum: 98" in line for line in lines)
    assert any(line.startswith("+") and "maximum: 99" in line for line in lines)


@pytest.mark.parametrize("place", generated.COPIES)
def test_a_missing_and_a_foreign_file_are_named(tree: Path, place: str) -> None:
    (tree / place / DEFINITION).rename(tree / place / "old.yaml")
    assert generated.stale(tree, place) == [
        f"{place}/old.yaml is not generated: remove it",
        f"{place}/{DEFINITION} is missing",
    ]


def test_a_sample_that_is_not_the_readmes_is_named(tree: Path) -> None:
    assert documents.readme_differs(tree) == []
    edit(tree / "README.md", "targetMs: 250", "targetMs: 251")
    assert any("targetMs: 251" in line for line in documents.readme_differs(tree))
    (tree / "README.md").write_text("nothing here")
    assert documents.readme_differs(tree) == ["README.md holds no manifest"]


def test_a_version_left_behind_is_named(tree: Path) -> None:
    assert documents.versions_differ(tree) == []
    edit(tree / "engine/pyproject.toml", 'version = "', 'version = "9.')
    (problem,) = documents.versions_differ(tree)
    assert problem.startswith("values.yaml engine.image is paceline-engine:")


@pytest.mark.apiserver
def test_a_sample_the_server_refuses_is_named(tree: Path) -> None:
    folder = tree / "manifests/samples"
    edit(folder / "smollm2.yaml", "maxNumSeqs", "maxNumSequences")
    (problem,) = samples.refused(folder)
    assert problem.startswith("smollm2.yaml: ")
    assert "maxNumSequences" in problem


def test_no_samples_are_a_problem(tmp_path: Path) -> None:
    assert samples.refused(tmp_path) != []


def test_the_last_line_is_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    good = Check("all is well", list, "none")
    bad = Check("all is ill", lambda: ["this differs"], "make crds")
    assert report([good])
    assert capsys.readouterr().out.splitlines() == ["ok: all is well", "verify: ok"]
    assert not report([bad, good])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "not ok: all is ill"
    assert "    this differs" in lines
    assert "    remedy: make crds" in lines
    assert lines[-1] == "verify: failed"


def test_a_check_that_cannot_look_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    def late() -> list[str]:
        raise TimeoutError("the API server did not become ready")

    assert not report([Check("the server answers", late, "look at its log")])
    assert "the API server did not become ready" in capsys.readouterr().out


def test_a_long_difference_is_cut() -> None:
    lines = difference("f", "\n".join("ab" * 100), "\n".join("cd" * 100))
    assert len(lines) == MAX_DIFF_LINES + 1
    assert lines[-1].endswith("more lines")


def test_a_difference_in_line_ends_is_one_too() -> None:
    assert difference("f", "a\n", "a") != []
