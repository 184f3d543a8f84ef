"""The provider `existing`: somebody else's cluster, named by its context, never changed."""

from e2e.cluster import access
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Say
from e2e.cluster.settings import Settings
from e2e.kubectl import KubectlError


def up(settings: Settings, say: Say) -> None:
    """Checks that the cluster answers and takes pods.

    Raises:
        ClusterError: It cannot be reached, or no node of it is Ready.
    """
    say(settings.context, "asking the cluster")
    path = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
    try:
        shown = access.kubectl(settings).run("get", "nodes", "-o", path, timeout_s=30)
    except KubectlError as error:
        raise ClusterError(
            f"context {settings.context} in {settings.kubeconfig} does not answer: {error}",
            "check PACELINE_KUBE_CONTEXT and KUBECONFIG",
        ) from error
    ready = shown.split().count("True")
    if ready == 0:
        raise ClusterError(f"no node of {settings.context} is Ready", "choose another cluster")
    say(settings.context, f"reachable, {ready} nodes Ready")


def down(settings: Settings, say: Say) -> None:
    """Says that nothing is done."""
    say(settings.context, "an existing cluster is left as it is; nothing was stopped or removed")
