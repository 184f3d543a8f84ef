"""Configuration files and credentials of the components, written below the state directory."""

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from e2e.cluster import cgroups, components, layout
from e2e.cluster.images import PAUSE_IMAGE
from e2e.cluster.pki import Authority, Subject, write_kubeconfig
from e2e.cluster.settings import (
    BRIDGE,
    CLUSTER_DOMAIN,
    DNS_SERVICE_IP,
    NAME,
    NODE_IP,
    POD_CIDR,
    PORTS,
    Settings,
)

CNI_PLUGINS = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins lie."""

MAX_PODS = 400


def write_credentials(settings: Settings) -> None:
    """Makes every certificate and kubeconfig that is not there yet."""
    place = layout.of(settings)
    authority = Authority(place.pki)
    authority.signing_key("service-account")
    place.store_keys.make()
    local = ("IP:127.0.0.1", "DNS:localhost")
    api = Subject("kube-apiserver", hosts=components.API_HOSTS)
    authority.issue("kube-apiserver", api)
    authority.issue("kube-apiserver-kubelet", Subject("kube-apiserver", "system:masters"))
    node = Subject(f"system:node:{settings.node}", "system:nodes", (f"IP:{NODE_IP}", *local))
    users = {
        "admin": Subject("admin", "system:masters"),
        "kube-controller-manager": Subject("system:kube-controller-manager", hosts=local),
        "kube-scheduler": Subject("system:kube-scheduler", hosts=local),
        "kubelet": node,
        "kube-proxy": Subject("system:kube-proxy"),
    }
    for name, subject in users.items():
        pair = authority.issue(name, subject)
        write_kubeconfig(place.kubeconfig(name), settings.server, authority.ca, pair)


def write_configurations(settings: Settings, *, adjusts_oom_score: bool) -> None:
    """Writes the files that the components read at start.

    Args:
        settings: Where to.
        adjusts_oom_score: Whether this process may lower a score (CAP_SYS_RESOURCE).
    """
    config = layout.of(settings).config
    (config / "containerd.toml").write_text(
        containerd_toml(settings, adjusts_oom_score=adjusts_oom_score)
    )
    (config / "cni" / "10-paceline.conflist").write_text(json.dumps(cni(settings), indent=2))
    (config / "kubelet.yaml").write_text(yaml.safe_dump(kubelet(settings)))
    (config / "kube-proxy.yaml").write_text(yaml.safe_dump(kube_proxy(settings)))
    (config / "resolv.conf").write_text("nameserver 127.0.0.1\n")


def containerd_toml(settings: Settings, *, adjusts_oom_score: bool) -> str:
    """Configuration of containerd, with nothing left at its default place."""
    state = settings.state
    restrict = str(not adjusts_oom_score).lower()
    return f"""\
version = 3
root = "{state}/containerd"
state = "{state}/run/containerd"

[grpc]
address = "{settings.containerd_socket}"

[plugins.'io.containerd.internal.v1.opt']
path = "{state}/containerd/opt"

[plugins.'io.containerd.shim.v1.manager']
socket_dir = "{state}/run/s"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins.'io.containerd.cri.v1.runtime']
# Without CAP_SYS_RESOURCE the refused write to oom_score_adj would fail every pod.
restrict_oom_score_adj = {restrict}
netns_mounts_under_state_dir = true
# Programs without root may serve low ports: cluster DNS does.
enable_unprivileged_ports = true
ignore_deprecation_warnings = ["io.containerd.deprecation/cgroup-v1"]

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{CNI_PLUGINS}"]
conf_dir = "{state}/config/cni"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
Root = "{state}/run/runc"
SystemdCgroup = false
"""


def cni(settings: Settings) -> dict[str, object]:
    """Pod network: one bridge; masquerading is done by the cluster's own rule, not per pod."""
    ranges = [[{"subnet": POD_CIDR, "gateway": NODE_IP}]]
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(settings.state / "cni"),
            "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": NAME, "plugins": [bridge, portmap]}


def kubelet(settings: Settings) -> Mapping[str, object]:
    """Configuration of the kubelet."""
    place = layout.of(settings)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_IP,
        "port": PORTS["kubelet"],
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": PORTS["kubelet-health"],
        "tlsCertFile": str(place.pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(place.pki / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": str(place.pki / "ca.crt")},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{settings.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroups.ROOT}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": str(place.logs / "pods"),
        "volumePluginDir": str(settings.state / "kubelet" / "volume-plugins"),
        "clusterDNS": [DNS_SERVICE_IP],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(place.config / "resolv.conf"),
        "maxPods": MAX_PODS,
        "serializeImagePulls": False,
        # The defaults hold back a fleet that scales by dozens of pods.
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "registryPullQPS": 0,
        "eventRecordQPS": 50,
    }


def kube_proxy(settings: Settings) -> Mapping[str, object]:
    """Configuration of kube-proxy; it leaves the host's connection tracking limits alone."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(layout.of(settings).kubeconfig("kube-proxy"))},
        "hostnameOverride": settings.node,
        "mode": "iptables",
        "clusterCIDR": POD_CIDR,
        "detectLocalMode": "ClusterCIDR",
        "healthzBindAddress": f"127.0.0.1:{PORTS['proxy-health']}",
        "metricsBindAddress": f"127.0.0.1:{PORTS['proxy-metrics']}",
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
