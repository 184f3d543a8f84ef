"""Certificates, keys and kubeconfig files, made with the openssl command line.

One authority signs everything. Clients are told apart by subject: the organisation is the
Kubernetes group, the common name the user.
"""

import base64
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.cluster.errors import CommandError

_CONFIG = "[req]\ndistinguished_name = dn\nprompt = no\n[dn]\nCN = unused\n"
_DAYS = "3650"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Subject:
    """Who a certificate speaks for.

    Attributes:
        name: Common name: the Kubernetes user.
        group: Organisation: the Kubernetes group, or empty.
        hosts: Subject alternative names in openssl's form, such as `IP:127.0.0.1`.
    """

    name: str
    group: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The subject in openssl's notation."""
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.name}"


class Authority:
    """A certificate authority kept in a directory; asking twice gives the same files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._config = directory / "openssl.cnf"
        self._config.write_text(_CONFIG)
        self.ca = self._pair("ca")
        if not self.ca.certificate.exists():
            extensions = ("basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign,cRLSign")
            self._request(self.ca, "/CN=paceline-e2e-ca", extensions)

    def issue(self, file: str, subject: Subject) -> Pair:
        """Returns the certificate named `file`, for servers and clients alike."""
        pair = self._pair(file)
        if not pair.certificate.exists():
            names = (f"subjectAltName={','.join(subject.hosts)}",) if subject.hosts else ()
            extensions = (
                "basicConstraints=critical,CA:FALSE",
                "keyUsage=critical,digitalSignature",
                "extendedKeyUsage=serverAuth,clientAuth",
                *names,
            )
            signer = ("-CA", str(self.ca.certificate), "-CAkey", str(self.ca.key))
            self._request(pair, subject.path, extensions, signer)
        return pair

    def signing_key(self, file: str) -> Path:
        """Returns a bare private key, for service account tokens."""
        key = self._pair(file).key
        if not key.exists():
            # Kubernetes reads the traditional EC form here, not PKCS #8.
            _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
        return key

    def _pair(self, file: str) -> Pair:
        return Pair(self._directory / f"{file}.crt", self._directory / f"{file}.key")

    def _request(
        self, pair: Pair, subject: str, extensions: Sequence[str], signer: Sequence[str] = ()
    ) -> None:
        added = [word for extension in extensions for word in ("-addext", extension)]
        fresh = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        where = ["-keyout", str(pair.key), "-out", str(pair.certificate)]
        options = ["-x509", "-config", str(self._config), "-days", _DAYS, "-subj", subject]
        _openssl("req", *options, *signer, *fresh, *where, *added)


def write_kubeconfig(path: Path, server: str, authority: Pair, client: Pair) -> Path:
    """Writes a self-contained kubeconfig with one context, `paceline-e2e`."""
    name = "paceline-e2e"
    cluster = {"server": server, "certificate-authority-data": _encoded(authority.certificate)}
    user = {
        "client-certificate-data": _encoded(client.certificate),
        "client-key-data": _encoded(client.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")


def _openssl(*arguments: str) -> None:
    try:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise CommandError("openssl is not installed", "apt-get install openssl") from None
    except subprocess.CalledProcessError as failure:
        last = (failure.stderr.strip().splitlines() or ["no message"])[-1]
        raise CommandError(
            f"openssl {arguments[0]} failed: {last}", "openssl 3 is needed"
        ) from None
