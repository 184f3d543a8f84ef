"""etcd and the right to read it: every Secret lies in it, so a loopback port is not enough.

It has an authority of its own. Kubernetes hands out certificates of the cluster's authority,
and none of those must open the store.
"""

from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.pki import Authority, Pair, Subject

_HOSTS = ("IP:127.0.0.1", "DNS:localhost")


@dataclass(frozen=True, slots=True)
class Keys:
    """Certificates of the store.

    Attributes:
        directory: Where they lie.
    """

    directory: Path

    @property
    def authority(self) -> Path:
        """Certificate that both sides trust."""
        return self.directory / "ca.crt"

    @property
    def server(self) -> Pair:
        """Of etcd, towards clients and peers."""
        return Pair(self.directory / "server.crt", self.directory / "server.key")

    @property
    def client(self) -> Pair:
        """Of the API server, and of who asks after etcd's health."""
        return Pair(self.directory / "client.crt", self.directory / "client.key")

    def make(self) -> None:
        """Writes those that are not there yet."""
        authority = Authority(self.directory)
        authority.issue("server", Subject("etcd", hosts=_HOSTS))
        authority.issue("client", Subject("kube-apiserver"))


def url(port: int) -> str:
    """Where etcd listens."""
    return f"https://127.0.0.1:{port}"


def etcd_flags(data: Path, port: int, peer_port: int, keys: Keys) -> tuple[str, ...]:
    """Options of an etcd that answers only to holders of a certificate.

    Args:
        data: Its data directory.
        port: For clients, on loopback.
        peer_port: For peers, of which there are none.
        keys: Its certificates.
    """
    client, peer = url(port), url(peer_port)
    return (
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        *_only_with_certificate("", keys),
        *_only_with_certificate("peer-", keys),
        "--unsafe-no-fsync",
        "--log-level=warn",
    )


def client_flags(port: int, keys: Keys) -> tuple[str, ...]:
    """Options of an API server that keeps its objects there."""
    return (
        f"--etcd-servers={url(port)}",
        f"--etcd-cafile={keys.authority}",
        f"--etcd-certfile={keys.client.certificate}",
        f"--etcd-keyfile={keys.client.key}",
    )


def _only_with_certificate(prefix: str, keys: Keys) -> tuple[str, ...]:
    return (
        f"--{prefix}client-cert-auth",
        f"--{prefix}trusted-ca-file={keys.authority}",
        f"--{prefix}cert-file={keys.server.certificate}",
        f"--{prefix}key-file={keys.server.key}",
    )
