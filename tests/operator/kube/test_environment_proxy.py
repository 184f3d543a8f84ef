"""Which servers are reached through the proxy of the environment."""

from __future__ import annotations

import pytest

from paceline_operator.kube.environment_proxy import environment_proxy

PROXY = "http://proxy.inside:3128"
NAMES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_without_a_proxy_every_server_is_reached_directly() -> None:
    assert environment_proxy("https://10.1.2.3:6443") is None


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
@pytest.mark.parametrize("value", [PROXY, "proxy.inside:3128"])
def test_a_server_with_tls_is_reached_through_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert environment_proxy("https://10.1.2.3:6443") == PROXY
    assert environment_proxy("http://10.1.2.3:8080") is None


@pytest.mark.parametrize(
    ("server", "excluded", "is_direct"),
    [
        ("https://localhost:6443", "", True),
        ("https://127.8.0.1:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://api.inside:6443", "other", False),
        ("https://api.inside:6443", "other, .inside", True),
        ("https://api.inside:6443", "api.inside", True),
        ("https://api.inside:6443", "*", True),
        ("https://10.1.2.3:6443", "10.1.0.0/16", True),
        ("https://10.2.2.3:6443", "10.1.0.0/16, fd00::/8", False),
        ("https://[fd00::5]:6443", "10.1.0.0/16,fd00::/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.0/33", False),
        ("https://api.inside:6443", "api.inside:6443", True),
        ("https://api.inside:6443", "other, API.Inside:6443 ", True),
        ("https://api.inside:6443", ".inside:6443", True),
        ("https://api.inside:6443", "*.inside", True),
        ("https://api.inside:6443", "api.inside:443", False),
        ("https://api.inside", "api.inside:443", True),
        ("https://api.inside:6443", ".api.inside", False),
        ("https://xapi.inside:6443", "api.inside", False),
        ("https://api.inside:6443", ":6443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.30:6443", "10.1.2.3:6443", False),
        ("https://[fd00::5]:6443", "[fd00::5]:6443", True),
        ("https://[fd00::5]:6443", "[fd00::5]:443", False),
        ("https://[fd00::5]:6443", "fd00:0::5", True),
    ],
)
def test_what_the_environment_excludes_is_reached_directly(
    monkeypatch: pytest.MonkeyPatch, server: str, excluded: str, is_direct: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", excluded)
    assert environment_proxy(server) == (None if is_direct else PROXY)
