"""Files that are no kubeconfig, each as it comes about."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration

from paceline_operator.kube.client import KubeClient
from paceline_operator.kube.kubeconfig import ConfigError, read_kubeconfig

FILE = """
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: c, user: u, namespace: team}}
- {name: b, context: {cluster: c, user: u}}
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"CLUSTER}}]
users: [{name: u, user: {USER}}]
"""


def made(cluster: str = "", user: str = "") -> str:
    return FILE.replace("CLUSTER", cluster).replace("USER", user)


NOT_BASE64 = ', certificate-authority-data: "@@@x"'
NO_AUTHORITY = ', certificate-authority-data: "aGFsbG8="'
NO_PAIR = 'client-certificate-data: "aGFsbG8=", client-key-data: "aGFsbG8="'
PLUGIN = "exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere/login}"


def put(place: Path, text: str) -> None:
    place.write_text(text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


@pytest.mark.parametrize(("context", "namespace"), [(None, "team"), ("a", "team"), ("b", None)])
async def test_the_namespace_is_that_of_the_context(
    place: Path, context: str | None, namespace: str | None
) -> None:
    put(place, made())
    configuration = Configuration()
    assert await read_kubeconfig(configuration, context) == namespace
    assert configuration.host == "https://127.0.0.1:1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty, or is no kubeconfig"),
        ("hello", "is empty, or is no kubeconfig"),
        ("3", "is empty, or is no kubeconfig"),
        ("[1]", "is empty, or is no kubeconfig"),
        ("current-context: a\ncontexts: 3\n", "is empty, or is no kubeconfig"),
        (made().replace('"https://127.0.0.1:1"', "5"), "is empty, or is no kubeconfig"),
        (made(NOT_BASE64), "is empty, or is no kubeconfig: Invalid base64-encoded string"),
        ("a: [", "is not YAML: "),
        ("a: 2024-02-30", "is no kubeconfig: day is out of range for month"),
        ("a: !!int ''", "is no kubeconfig: string index out of range"),
        ("\x07", "is not YAML: "),
        (made(', certificate-authority: "/nowhere/ca"'), "File does not exists: /nowhere/ca"),
        (made(user=PLUGIN), "No such file or directory: '/nowhere/login'"),
    ],
)
async def test_what_is_no_kubeconfig_is_said_in_one_line(place: Path, text: str, said: str) -> None:
    put(place, text)
    with pytest.raises(ConfigError) as refused:
        await read_kubeconfig(Configuration(), None)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_missing_file_and_an_unknown_context_are_said(place: Path) -> None:
    with pytest.raises(ConfigError, match=f"{place}: Invalid kube-config file"):
        await read_kubeconfig(Configuration(), None)
    put(place, made())
    with pytest.raises(ConfigError, match="Expected object with name other"):
        await read_kubeconfig(Configuration(), "other")


@pytest.mark.parametrize("text", [made(NO_AUTHORITY), made(user=NO_PAIR)])
async def test_certificates_that_are_none_are_said(place: Path, text: str) -> None:
    put(place, text)
    configuration = Configuration()
    await read_kubeconfig(configuration, None)
    with pytest.raises(ConfigError, match=r"the certificates for https:.* cannot be used"):
        async with KubeClient(configuration):
            pass
