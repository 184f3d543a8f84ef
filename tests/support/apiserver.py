"""A real API server for tests: etcd and kube-apiserver alone, in a temporary directory.

There is no controller manager, scheduler or node: objects are stored, validated, defaulted and
watched, but nothing acts on them (no garbage collection by owner reference, no pods run, a
deleted namespace stays Terminating, a Deployment gets no status, and the aggregated roles
`admin`, `edit` and `view` are empty). Use one for a whole session:

    @pytest.fixture(scope="session")
    def api() -> Iterator[ApiServer]:
        with running() as server:
            yield server
"""

import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries, settings, store
from e2e.cluster.pki import Authority, Pair, Subject, write_kubeconfig
from tests.support.leash import leashed

START_TIMEOUT_S = 120.0
"""Below the limit of a single test, so that the server's log is seen and not a stack dump."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server.

    Attributes:
        kubeconfig: File with cluster-admin rights.
        url: Where it listens, on loopback.
        directory: Its temporary directory; logs are `etcd.log` and `kube-apiserver.log`.
        authority: Signs the certificates of further users.
    """

    kubeconfig: Path
    url: str
    directory: Path
    authority: Authority

    def kubeconfig_for(self, user: str, group: str = "") -> Path:
        """Writes a kubeconfig for another user, who has no rights until bound to a role.

        A service account is `system:serviceaccount:<namespace>:<name>`.
        """
        file = "".join(c if c.isalnum() else "-" for c in f"{user}-{group}")
        pair = self.authority.issue(file, Subject(user, group))
        target = self.directory / "kubeconfig" / f"{file}.conf"
        return write_kubeconfig(target, self.url, self.authority.ca, pair)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Runs kubectl as administrator and returns its standard output.

        Raises:
            AssertionError: kubectl failed; the message is what it wrote.
        """
        done = self.try_kubectl(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as administrator, whatever comes of it."""
        # Another server may have had this port before, and other kinds.
        cache = f"--cache-dir={self.directory / 'kubectl'}"
        command = [*_program("kubectl"), "--kubeconfig", str(self.kubeconfig), cache, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


@contextmanager
def running(*flags: str) -> Iterator[ApiServer]:
    """Starts etcd and an API server on free ports, and stops both at the end.

    Args:
        *flags: Further options of kube-apiserver; a repeated one overrides.

    Raises:
        BinaryMissingError: The programs are not built; run `make cluster-build`.
        TimeoutError: The server was not ready in time; the message ends with its log.
    """
    binaries.require(settings.from_environment().cache, "kubebox")
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="paceline-api-"))
        directory = Path(place)
        authority = Authority(directory / "pki")
        server_port, etcd_port, peer_port = free_ports(3)
        keys = store.Keys(directory / "pki-etcd")
        keys.make()
        etcd = store.etcd_flags(directory / "etcd", etcd_port, peer_port, keys)
        stack.enter_context(_process(directory, "etcd", etcd))
        storage = store.client_flags(etcd_port, keys)
        options = [*storage, *_apiserver(authority, server_port), *flags]
        process = stack.enter_context(_process(directory, "kube-apiserver", options))
        server = _describe(directory, authority, server_port)
        _wait_ready(server, process)
        yield server


def free_ports(count: int) -> list[int]:
    """Returns ports of the loopback address that nothing listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _describe(directory: Path, authority: Authority, port: int) -> ApiServer:
    url = f"https://127.0.0.1:{port}"
    admin = authority.issue("admin", Subject("admin", "system:masters"))
    kubeconfig = write_kubeconfig(directory / "kubeconfig/admin.conf", url, authority.ca, admin)
    return ApiServer(kubeconfig, url, directory, authority)


def _apiserver(authority: Authority, port: int) -> list[str]:
    serving = authority.issue("server", Subject("server", hosts=("IP:127.0.0.1", "DNS:localhost")))
    signing = authority.signing_key("service-account")
    return [
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--advertise-address={settings.NODE_IP}",
        "--endpoint-reconciler-type=none",
        *_serving(serving, authority.ca),
        f"--service-account-key-file={signing}",
        f"--service-account-signing-key-file={signing}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={settings.SERVICE_CIDR}",
        "--authorization-mode=RBAC",
        # Its controller, which makes the default account, does not run here.
        "--disable-admission-plugins=ServiceAccount",
    ]


def _serving(pair: Pair, authority: Pair) -> list[str]:
    return [
        f"--tls-cert-file={pair.certificate}",
        f"--tls-private-key-file={pair.key}",
        f"--client-ca-file={authority.certificate}",
    ]


@contextmanager
def _process(
    directory: Path, program: str, arguments: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    command = leashed([*_program(program), *arguments])
    with (directory / f"{program}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _program(name: str) -> list[str]:
    return [str(binaries.require(settings.from_environment().cache, "kubebox")), name]


def _wait_ready(server: ApiServer, process: subprocess.Popen[bytes]) -> None:
    pair = server.authority.issue("admin", Subject("admin", "system:masters"))
    trust = ssl.create_default_context(cafile=str(server.authority.ca.certificate))
    trust.load_cert_chain(pair.certificate, pair.key)
    limit = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < limit:
        # The namespace is made after /readyz turns good, and tests want to write into it.
        if _answers(f"{server.url}/readyz", trust) and _answers(
            f"{server.url}/api/v1/namespaces/default", trust
        ):
            return
        time.sleep(0.05)
    log = (server.directory / "kube-apiserver.log").read_text(errors="replace")
    raise TimeoutError("the API server did not become ready:\n" + log[-2000:])


def _answers(url: str, trust: ssl.SSLContext) -> bool:
    try:
        with urllib.request.urlopen(url, context=trust, timeout=2) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
