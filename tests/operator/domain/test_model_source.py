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


@pytest.mark.parametrize("claim", ["a", "a-1.b", "9", "a" * 63, "a.b.c"])
def test_every_name_a_claim_may_have_is_taken(claim: str) -> None:
    volume = locate(f"pvc://{claim}/m", ()).volumes[0]
    assert volume["persistentVolumeClaim"]["claimName"] == claim


def test_what_is_escaped_is_part_of_the_path() -> None:
    assert locate("pvc://claim/a%23b%20c", ()).path == "/var/lib/paceline/model/a#b c"


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
        ("pvc://[bad/x", (), "is not a URI"),
        ("hf://[bad/x", (), "is not a URI"),
        ("pvc://cl\u2100im/x", (), "is not a URI"),
        ("pvc://claim/%ff", (), "is not a URI"),
        ("file:///models/m#1", ("/models",), "write %23"),
        ("pvc://claim/m?x=1", (), "write %23 and %3F"),
        ("file:///models/a%00b", ("/models",), "control characters"),
        ("pvc://claim/a%0Ab", (), "control characters"),
        ("pvc://claim/a%7f", (), "control characters"),
        ("pvc://claim/a\x01b", (), "control characters"),
        ("pvc://Claim/m", (), "no name of a PersistentVolumeClaim"),
        ("pvc://cl_aim/m", (), "no name of a PersistentVolumeClaim"),
        ("pvc://-claim/m", (), "no name of a PersistentVolumeClaim"),
        ("pvc://me@claim:1/m", (), "no name of a PersistentVolumeClaim"),
        ("pvc://a..b/m", (), "no name of a PersistentVolumeClaim"),
        (f"pvc://{'a' * 64}/m", (), "no name of a PersistentVolumeClaim"),
        (f"pvc://{'a.' * 127}a/m", (), "no name of a PersistentVolumeClaim"),
    ],
)
def test_refusals_say_what_to_do(uri: str, prefixes: tuple[str, ...], said: str) -> None:
    with pytest.raises(UnsupportedModelError, match=said.replace("/", "/")):
        locate(uri, prefixes)
