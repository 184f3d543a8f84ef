"""The kinds the operator touches, and their paths in the REST API."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_operator.api import v1alpha1


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object; `group` is empty for the core API."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """Value of `apiVersion` in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, sub: str | None = None) -> str:
        """Path below the server's address; no name means the collection."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        tail = "".join(f"/{part}" for part in (name, sub) if part)
        return f"{root}{scope}/{self.plural}{tail}"


INFERENCE_SERVICE = Resource(v1alpha1.GROUP, v1alpha1.VERSION, v1alpha1.PLURAL, v1alpha1.KIND)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment")
POD = Resource("", "v1", "pods", "Pod")
SERVICE = Resource("", "v1", "services", "Service")
SECRET = Resource("", "v1", "secrets", "Secret")
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap")
EVENT = Resource("events.k8s.io", "v1", "events", "Event")
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
AUTOSCALER = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SCALED_OBJECT = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject")

CHILDREN = (SERVICE, CONFIG_MAP, SECRET, DEPLOYMENT)
BY_KIND = {
    kind.kind: kind
    for kind in (
        INFERENCE_SERVICE,
        DEPLOYMENT,
        POD,
        SERVICE,
        SECRET,
        CONFIG_MAP,
        AUTOSCALER,
        SCALED_OBJECT,
    )
}
