"""Settings come from the environment; each wrong one is one line with its remedy."""

from pathlib import Path

import pytest

from e2e.cluster import layout
from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import Settings, from_environment


def test_defaults_are_a_built_cluster_below_var_lib() -> None:
    settings = from_environment({})
    assert (settings.provider, settings.context) == ("built", "")
    assert settings.state == Path("/var/lib/paceline-e2e")
    assert settings.kubeconfig.is_relative_to(settings.state)


def test_a_named_context_means_an_existing_cluster() -> None:
    settings = from_environment({"PACELINE_KUBE_CONTEXT": "mine", "KUBECONFIG": "/a/b:/c"})
    assert (settings.provider, settings.context) == ("existing", "mine")
    assert settings.kubeconfig == Path("/a/b")


def test_built_wins_over_a_context_when_asked_for() -> None:
    settings = from_environment({"PACELINE_KUBE_CONTEXT": "mine", "PACELINE_CLUSTER": "built"})
    assert (settings.provider, settings.context) == ("built", "")


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"PACELINE_CLUSTER": "kind"}, "kind is not a provider"),
        ({"PACELINE_CLUSTER": "existing"}, "only when it is named"),
        ({"PACELINE_STATE": "state"}, "not an absolute path"),
        ({"PACELINE_CACHE": "cache"}, "not an absolute path"),
    ],
)
def test_wrong_settings_are_refused(environment: dict[str, str], problem: str) -> None:
    with pytest.raises(ClusterError, match=problem) as caught:
        from_environment(environment)
    assert caught.value.remedy


@pytest.mark.parametrize("state", ["/", "/var", "/var/lib/" + "x" * 40])
def test_a_state_directory_must_be_deletable_and_short(state: str) -> None:
    with pytest.raises(ClusterError):
        layout.of(Settings(state=Path(state), cache=Path("/cache")))
