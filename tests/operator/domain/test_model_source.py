from __future__ import annotations

import pytest

from paceline_operator.domain.errors import UnsupportedModelError
from paceline_operator.domain.model_source import locate


def test_host_path_is_mounted_read_only_under_its_own_name() -> None:
    weights = locate("file:///models/a/m.gguf", ("/models",))
    assert weights.path == "/var/lib/paceline/model/m.gguf"
    assert weights.volumes[0]["hostPath"] == {"path": "/models/a/m.gguf", "type": "File"}
    assert weights.mounts[0] == {
        "name": "model", "mountPath": "/var/lib/paceline/model/m.gguf", "readOnly": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/models/m.gguf", "File"),
        ("/models/Llama-3.1-8B.Q4_K_M.GGUF", "File"),
        ("/models/m.gguf/", "File"),
        ("/models/SmolLM2-135M-Instruct", "Directory"),
        ("/models/Qwen2.5-0.5B-Instruct", "Directory"),
        ("/models/Mistral-7B-Instruct-v0.3", "Directory"),
    ],
)
def test_a_host_path_is_never_made_on_the_node(path: str, kind: str) -> None:
    """Without a type the runtime makes an empty directory where a path is wrong."""
    assert locate(f"file://{path}", ("/models",)).volumes[0]["hostPath"]["type"] == kind


def test_claim_is_mounted_whole() -> None:
    weights = locate("pvc://claim/dir/m.gguf", ())
    assert weights.path == "/var/lib/paceline/model/dir/m.gguf"
    assert weights.volumes[0]["persistentVolumeClaim"] == {"claimName": "claim", "readOnly": True}


def test_no_uri_is_no_weights() -> None:
    assert locate(None, ()).path is None


@pytest.mark.parametrize(
    ("uri", "prefixes", "said"),
    [
        ("hf://org/model", (), "scheme hf:// is not supported yet"),
        ("file:///models/m", (), "file:// models are off"),
        ("file:///etc/shadow", ("/models",), "lies outside"),
        ("file:///models/%2e%2e/etc/shadow", ("/models",), "without '..'"),
        ("file:///modelsecret/m", ("/models",), "lies outside"),
        ("pvc:///m", (), "pvc://claim/path"),
        ("pvc://claim/../x", (), "pvc://claim/path"),
    ],
)
def test_refusals_say_what_to_do(uri: str, prefixes: tuple[str, ...], said: str) -> None:
    with pytest.raises(UnsupportedModelError, match=said.replace("/", "/")):
        locate(uri, prefixes)
