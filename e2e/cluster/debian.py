"""Programs that the cluster takes from Debian packages, and how missing ones are installed."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import kernel
from e2e.cluster.commands import SYSTEM_PATH, run
from e2e.cluster.errors import MissingToolError
from e2e.cluster.progress import Say, heartbeat
from e2e.interruption import deferred

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

_LOADER = {"modprobe": "kmod"}
"""Needed where a kernel module is still to be loaded."""

_SERVICES = ("haproxy",)
"""Programs whose package starts a service; pods run them, the machine does not."""

_SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")
_SIGNATURE = "# Written by Paceline's set-up while it installs packages."
_REFUSE_TO_START = f"""\
#!/bin/sh
{_SIGNATURE}
# Left behind by one that was killed, it allows everything after half an hour.
test -z "$(find "$0" -mmin -30)" && exit 0
exit 101
"""

_APT_OPTIONS = ("-o", "DPkg::Lock::Timeout=300")
_APT_LIMIT_S = 1500.0


def missing_packages() -> list[str]:
    """Debian packages of the programs that this machine lacks."""
    needed = {**PACKAGES, **(_LOADER if kernel.missing() else {})}
    return sorted({package for program, package in needed.items() if not _has(program)})


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
    with _no_service_starts():
        install(missing, say)
    _keep_from_booting([name for name in _SERVICES if name in missing])


def install(packages: Sequence[str], say: Say) -> None:
    """Installs Debian packages; an interruption waits until the package manager is done.

    Raises:
        MissingToolError: There is no apt-get, or no right to use it.
        CommandError: apt-get failed.
    """
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise MissingToolError(f"not installed: {names}", "use your package manager, then again")
    if os.geteuid() != 0:
        raise MissingToolError(f"not installed: {names}", f"`sudo apt-get install {names}`")
    say("packages", f"installing {names}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Its own session, out of reach of a Ctrl-C and of what ends our group: half an
    # installation leaves the machine's package database locked or broken.
    with deferred(), heartbeat(say, "packages"):
        for words in (["update", "-q"], ["install", "-qy", "--no-install-recommends", *packages]):
            run(
                ["apt-get", *_APT_OPTIONS, *words],
                environment=environment,
                timeout_s=_APT_LIMIT_S,
                own_session=True,
            )


def _has(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    return shutil.which(program, path=SYSTEM_PATH) is not None


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Uses Debian's own hook, unless the machine has one of its own."""
    if _SERVICE_POLICY.exists() and _SIGNATURE not in _SERVICE_POLICY.read_text():
        yield
        return
    _SERVICE_POLICY.write_text(_REFUSE_TO_START)
    _SERVICE_POLICY.chmod(0o755)
    try:
        yield
    finally:
        _SERVICE_POLICY.unlink(missing_ok=True)


def _keep_from_booting(services: list[str]) -> None:
    if shutil.which("update-rc.d", path=SYSTEM_PATH) is not None:
        for service in services:
            run(["update-rc.d", service, "disable"])
