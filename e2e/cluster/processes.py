"""Starts, finds and ends the cluster's processes, each by its own id.

A record on disk names the process of every component, so that any later invocation, also
after an interruption, knows what is its own.
"""

import json
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path

from e2e.cluster import binaries, components, layout, procfs
from e2e.cluster.commands import SYSTEM_PATH, attempt
from e2e.cluster.components import Component
from e2e.cluster.errors import StartError
from e2e.cluster.procfs import Identity
from e2e.cluster.settings import Settings

_ASK_TIMEOUT_S = 2.0
_POLL_S = 0.1
_SERVERS = ("containerd", "containerd-shim-runc-v2")


def find(settings: Settings, name: str) -> Identity | None:
    """The running process of a component, or None."""
    record = _record(settings, name)
    try:
        identity = Identity(**json.loads(record.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return identity if identity.is_alive() else None


def start(settings: Settings, name: str) -> Identity:
    """Starts a component that does not run, and returns its process.

    Raises:
        StartError: It ended at once.
        BinaryMissingError: Its program is not built.
    """
    if running := find(settings, name):
        return running
    component = components.describe(settings, name)
    with log_path(settings, name).open("ab") as log:
        child = subprocess.Popen(
            component.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(settings, component),
            cwd=settings.state,
            start_new_session=True,
        )
    identity = procfs.identify(child.pid)
    if identity is None:
        raise StartError(f"{name} ended at once", f"see {log_path(settings, name)}")
    _record(settings, name).write_text(json.dumps(asdict(identity)))
    return identity


def kill(settings: Settings, name: str, number: signal.Signals = signal.SIGKILL) -> bool:
    """Sends a component's process a signal; whether there was one."""
    identity = find(settings, name)
    if identity is None:
        return False
    identity.send(number)
    if number == signal.SIGKILL:
        identity.wait(patience_s=10.0)
    return True


def stop(settings: Settings, name: str) -> None:
    """Ends a component, with as much patience as it deserves."""
    identity = find(settings, name)
    if identity is not None:
        identity.end(components.PATIENCE_S.get(name, 10.0))
    _record(settings, name).unlink(missing_ok=True)


def is_healthy(settings: Settings, name: str) -> bool:
    """Whether a component answers well when asked."""
    component = components.describe(settings, name)
    if component.health.startswith("unix:"):
        return _containerd_answers(settings)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if component.health.startswith("https"):
        handlers.append(urllib.request.HTTPSHandler(context=_trust(settings, component)))
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(component.health, timeout=_ASK_TIMEOUT_S) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _trust(settings: Settings, component: Component) -> ssl.SSLContext:
    authority = component.authority or layout.of(settings).pki / "ca.crt"
    trust = ssl.create_default_context(cafile=authority)
    if component.identity:
        trust.load_cert_chain(component.identity.certificate, component.identity.key)
    return trust


def wait_healthy(settings: Settings, name: str, patience_s: float = 60.0) -> None:
    """Waits until a component is well.

    Raises:
        StartError: It ended, or was not well in time; the message ends with its log.
    """
    limit = time.monotonic() + patience_s
    while not is_healthy(settings, name):
        if find(settings, name) is None:
            raise StartError(f"{name} ended: {last_line(settings, name)}", _see(settings, name))
        if time.monotonic() > limit:
            problem = f"{name} not ready within {patience_s:.0f} s: {last_line(settings, name)}"
            raise StartError(problem, _see(settings, name))
        time.sleep(_POLL_S)


def strays(settings: Settings) -> list[tuple[str, Identity]]:
    """Processes that serve this state directory, with their names, recorded or not.

    These are the shims, which outlive containerd, and what an interruption left unrecorded.
    They are told by their program's name and not by its place: after a change of versions or
    of the cache the program of a running process lies where nobody looks any more.
    """
    found = []
    for pid, program, words in procfs.commands():
        if f"{settings.state}/" in words and (name := server_name(program, words)):
            identity = procfs.identify(pid)
            found += [(name, identity)] if identity else []
    return found


def server_name(program: Path, words: str) -> str:
    """Name of one of the cluster's servers; empty for a kubectl or helm that somebody runs.

    Args:
        program: Its executable.
        words: Its command line.
    """
    if program.name in _SERVERS:
        return program.name
    second = words.partition(" ")[2].partition(" ")[0]
    return second if program.name == "kubebox" and second in components.ORDER else ""


def log_path(settings: Settings, name: str) -> Path:
    """Where a component writes its log."""
    return layout.of(settings).logs / f"{name}.log"


def last_line(settings: Settings, name: str) -> str:
    """The last line of a component's log."""
    path = log_path(settings, name)
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1][:300] if lines else "no output"


def _see(settings: Settings, name: str) -> str:
    return f"see {log_path(settings, name)}"


def _record(settings: Settings, name: str) -> Path:
    return layout.of(settings).records / f"{name}.json"


def _environment(settings: Settings, component: Component) -> dict[str, str]:
    """A small environment of its own: the user's proxies and options must not reach in."""
    path = ":".join([*map(str, component.path), SYSTEM_PATH])
    return {"PATH": path, "HOME": str(settings.state), "LANG": "C.UTF-8"}


def _containerd_answers(settings: Settings) -> bool:
    if not settings.containerd_socket.is_socket():
        return False
    return containerd_client(settings, "version", timeout_s=_ASK_TIMEOUT_S).returncode == 0


def containerd_client(
    settings: Settings, *words: str, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Calls `ctr` on the cluster's containerd, in the namespace that the kubelet uses."""
    program = binaries.require(settings.cache, "ctr")
    where = ["-a", str(settings.containerd_socket), "-n", "k8s.io"]
    return attempt([str(program), *where, *words], timeout_s=timeout_s)
