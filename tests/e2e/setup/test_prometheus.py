"""The Prometheus server for tests: one that is there is taken, another version is refused."""

from pathlib import Path

import pytest

from e2e.setup import prometheus
from e2e.setup.prometheus import prometheus_stage
from e2e.setup.stage import SetupError, Shell


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it goes; `prometheus` on PATH is a script that says which version it is."""
    target = tmp_path / "cache" / "prometheus"
    monkeypatch.setattr(prometheus, "PROGRAM", target)
    monkeypatch.setenv("PATH", str(tmp_path / "path"), prepend=":")
    return target


def says(program: Path, text: str) -> None:
    script = program.parents[1] / "path" / "prometheus"
    script.parent.mkdir()
    for name in ("prometheus", "promtool"):
        (script.parent / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (script.parent / name).chmod(0o755)


def test_one_on_path_is_taken(program: Path, tmp_path: Path) -> None:
    says(program, "prometheus, version 2.42.0+ds (branch: x)")
    prometheus_stage().run(Shell(tmp_path / "log"))
    assert program.read_text().startswith("#!/bin/sh")
    assert {each.name for each in program.parent.iterdir()} == {"prometheus", "promtool"}
    assert prometheus_stage().is_done()


def test_one_without_its_tool_is_refused(program: Path, tmp_path: Path) -> None:
    says(program, "prometheus, version 2.42.0+ds (branch: x)")
    (tmp_path / "path" / "promtool").unlink()
    with pytest.raises(SetupError, match="promtool is missing - install it"):
        prometheus_stage().run(Shell(tmp_path / "log"))


@pytest.mark.parametrize(
    ("text", "said"),
    [("prometheus, version 1.8.2", "1.8 is none of 2.42"), ("what?", "says 'what")],
)
def test_another_version_is_refused(program: Path, tmp_path: Path, text: str, said: str) -> None:
    says(program, text)
    with pytest.raises(SetupError, match=said):
        prometheus_stage().run(Shell(tmp_path / "log"))
    assert not program.exists()
