"""The seven processes of the cluster: their command lines and how their health is asked.

Pure: from settings to data. `processes` starts what is described here, in this order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries, layout, store
from e2e.cluster.pki import Pair
from e2e.cluster.settings import (
    API_SERVICE_IP,
    CLUSTER_DOMAIN,
    NODE_IP,
    POD_CIDR,
    PORTS,
    SERVICE_CIDR,
    Settings,
)

ORDER = (
    "etcd",
    "containerd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
)
"""Names of all processes, in the order of starting."""

# The API server drains its watches for a minute; what it has acknowledged is safe in etcd.
PATIENCE_S: Mapping[str, float] = {"kube-apiserver": 0.5}
"""How long a process may take to end after SIGTERM, where ten seconds are wrong."""


@dataclass(frozen=True, slots=True)
class Component:
    """One process.

    Attributes:
        name: Its name, also of its log and record.
        command: Program and arguments.
        health: URL that answers 200 when it is well, or `unix:` and a socket.
        ports: Names in `settings.PORTS` that it listens on.
        path: Directories put before PATH.
        authority: Certificate that its server's one is checked against; the cluster's if None.
        identity: What it must be shown before it answers, if anything.
    """

    name: str
    command: tuple[str, ...]
    health: str
    ports: tuple[str, ...] = ()
    path: tuple[Path, ...] = ()
    authority: Path | None = None
    identity: Pair | None = None


API_HOSTS = (
    "IP:127.0.0.1",
    f"IP:{NODE_IP}",
    f"IP:{API_SERVICE_IP}",
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    f"DNS:kubernetes.default.svc.{CLUSTER_DOMAIN}",
)
"""Every name under which host processes and pods reach the API server."""


def describe(settings: Settings, name: str) -> Component:
    """Returns the component of that name; a KeyError for an unknown one."""
    return _MAKERS[name](settings)


def _kubebox(settings: Settings, program: str, *flags: str) -> tuple[str, ...]:
    return (str(binaries.require(settings.cache, "kubebox")), program, *flags)


def _etcd(settings: Settings) -> Component:
    keys = layout.of(settings).store_keys
    ports = PORTS["etcd"], PORTS["etcd-peer"]
    flags = store.etcd_flags(settings.state / "etcd", *ports, keys)
    health = f"{store.url(ports[0])}/health"
    return Component(
        "etcd",
        _kubebox(settings, "etcd", *flags),
        health,
        ("etcd", "etcd-peer"),
        authority=keys.authority,
        identity=keys.client,
    )


def _apiserver(settings: Settings) -> Component:
    pki = layout.of(settings).pki
    command = _kubebox(
        settings,
        "kube-apiserver",
        *store.client_flags(PORTS["etcd"], layout.of(settings).store_keys),
        "--bind-address=0.0.0.0",
        f"--secure-port={PORTS['apiserver']}",
        f"--advertise-address={NODE_IP}",
        # The other reconciler drops the endpoint when the server is killed.
        "--endpoint-reconciler-type=lease",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        *_tls(pki, "kube-apiserver"),
        f"--client-ca-file={pki / 'ca.crt'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        f"--service-account-key-file={pki / 'service-account.key'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        # The node's name resolves nowhere: exec and logs must use the address.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'kube-apiserver-kubelet.crt'}",
        f"--kubelet-client-key={pki / 'kube-apiserver-kubelet.key'}",
        "--profiling=false",
    )
    health = f"https://127.0.0.1:{PORTS['apiserver']}/readyz"
    return Component("kube-apiserver", command, health, ("apiserver",))


def _controller_manager(settings: Settings) -> Component:
    pki = layout.of(settings).pki
    command = _kubebox(
        settings,
        "kube-controller-manager",
        *_client(settings, "kube-controller-manager"),
        "--bind-address=127.0.0.1",
        f"--secure-port={PORTS['controller-manager']}",
        *_tls(pki, "kube-controller-manager"),
        # It would exit when the API server is away for ten seconds.
        "--leader-elect=false",
        # An absence of a minute would mark the node Unknown and empty every endpoint list.
        "--node-monitor-grace-period=180s",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--use-service-account-credentials=true",
        f"--cluster-cidr={POD_CIDR}",
        "--allocate-node-cidrs=false",
        "--profiling=false",
    )
    health = f"https://127.0.0.1:{PORTS['controller-manager']}/healthz"
    return Component("kube-controller-manager", command, health, ("controller-manager",))


def _scheduler(settings: Settings) -> Component:
    command = _kubebox(
        settings,
        "kube-scheduler",
        *_client(settings, "kube-scheduler"),
        "--bind-address=127.0.0.1",
        f"--secure-port={PORTS['scheduler']}",
        *_tls(layout.of(settings).pki, "kube-scheduler"),
        "--leader-elect=false",
        "--profiling=false",
    )
    health = f"https://127.0.0.1:{PORTS['scheduler']}/healthz"
    return Component("kube-scheduler", command, health, ("scheduler",))


def _containerd(settings: Settings) -> Component:
    program = binaries.require(settings.cache, "containerd")
    config = layout.of(settings).config / "containerd.toml"
    return Component(
        "containerd",
        (str(program), "--config", str(config)),
        f"unix:{settings.containerd_socket}",
        # It finds the shim on PATH.
        path=(program.parent,),
    )


def _kubelet(settings: Settings) -> Component:
    place = layout.of(settings)
    command = _kubebox(
        settings,
        "kubelet",
        f"--config={place.config / 'kubelet.yaml'}",
        f"--kubeconfig={place.kubeconfig('kubelet')}",
        f"--root-dir={settings.state / 'kubelet'}",
        f"--cert-dir={settings.state / 'kubelet' / 'pki'}",
        f"--hostname-override={settings.node}",
        f"--node-ip={NODE_IP}",
    )
    health = f"http://127.0.0.1:{PORTS['kubelet-health']}/healthz"
    return Component("kubelet", command, health, ("kubelet", "kubelet-health"))


def _proxy(settings: Settings) -> Component:
    config = layout.of(settings).config / "kube-proxy.yaml"
    command = _kubebox(settings, "kube-proxy", f"--config={config}")
    health = f"http://127.0.0.1:{PORTS['proxy-health']}/healthz"
    return Component("kube-proxy", command, health, ("proxy-health", "proxy-metrics"))


def _tls(pki: Path, name: str) -> tuple[str, str]:
    return f"--tls-cert-file={pki / name}.crt", f"--tls-private-key-file={pki / name}.key"


def _client(settings: Settings, user: str) -> tuple[str, str, str]:
    path = layout.of(settings).kubeconfig(user)
    return (
        f"--kubeconfig={path}",
        f"--authentication-kubeconfig={path}",
        f"--authorization-kubeconfig={path}",
    )


_MAKERS: Mapping[str, Callable[[Settings], Component]] = {
    "etcd": _etcd,
    "containerd": _containerd,
    "kube-apiserver": _apiserver,
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
    "kubelet": _kubelet,
    "kube-proxy": _proxy,
}
