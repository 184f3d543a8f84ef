"""Programs that the cluster takes from Debian packages, and how missing ones are installed."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.commands import run
from e2e.cluster.errors import MissingToolError
from e2e.cluster.progress import Say

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PACKAGES: Mapping[str, str] = {
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "conntrack": "conntrack",
    "ethtool": "ethtool",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "openssl": "openssl",
    "runc": "runc",
    "socat": "socat",
}
"""Debian package of each program."""

_SERVICES = ("haproxy",)
"""Programs whose package starts a service; pods run them, the machine does not."""

_SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")
_REFUSE_TO_START = "#!/bin/sh\nexit 101\n"


def missing_packages() -> list[str]:
    """Debian packages of the programs that this machine lacks."""
    return sorted({package for program, package in PACKAGES.items() if not _has(program)})


def require_packages() -> None:
    """Checks that every program is there.

    Raises:
        MissingToolError: One is absent; the remedy is the command that installs all.
    """
    if missing := missing_packages():
        names = " ".join(missing)
        raise MissingToolError(f"not installed: {names}", f"`apt-get install {names}`")


def install_missing(say: Say) -> None:
    """Installs what is missing, without starting the services that come with it.

    Raises:
        MissingToolError: There is no apt-get, or no right to use it.
        CommandError: apt-get failed.
    """
    missing = missing_packages()
    if not missing:
        say("packages", "all installed")
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        names = " ".join(missing)
        raise MissingToolError(f"not installed: {names}", "install them, as root, and run again")
    say("packages", f"installing {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        for words in (["update", "-q"], ["install", "-qy", "--no-install-recommends", *missing]):
            run(["apt-get", *words], environment=environment, timeout_s=900.0)
    _keep_from_booting([name for name in _SERVICES if name in missing])


def _has(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    return shutil.which(program, path=SYSTEM_PATH) is not None


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Uses Debian's own hook, unless the machine has one of its own."""
    if _SERVICE_POLICY.exists():
        yield
        return
    _SERVICE_POLICY.write_text(_REFUSE_TO_START)
    _SERVICE_POLICY.chmod(0o755)
    try:
        yield
    finally:
        _SERVICE_POLICY.unlink()


def _keep_from_booting(services: list[str]) -> None:
    if shutil.which("update-rc.d", path=SYSTEM_PATH) is not None:
        for service in services:
            run(["update-rc.d", service, "disable"])
