"""kubectl on the configured cluster, and exclusive use of this machine's cluster."""

import fcntl
import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from e2e.cluster import binaries
from e2e.cluster.errors import ClusterError, MissingToolError
from e2e.cluster.settings import NAME, Settings
from e2e.kubectl import PLUGINS, Kubectl

_LOCKS = Path("/run")
"""Only root writes here, so nobody else can hold or replace a lock."""

_LONGEST_HOLDER = 200
_held: set[Path] = set()


def kubectl(settings: Settings, namespace: str = "default") -> Kubectl:
    """Kubectl as the cluster's administrator, or on the named context of an existing one.

    Raises:
        MissingToolError: It is neither built nor, for an existing cluster, on PATH.
    """
    context = settings.context or None
    return Kubectl(_program(settings), settings.kubeconfig, namespace, context)


def exports(settings: Settings) -> str:
    """Shell lines that give a person the cluster: kubeconfig, its kubectl and helm, the plug-in.

    The programs that were compiled with the cluster come first, as they fit it; the plug-in's
    folder comes last, as it also holds a python. An existing cluster keeps its own kubectl.
    """
    built = binaries.link_directory(settings.cache)
    first = f"{shlex.quote(str(built))}:" if settings.provider == "built" else ""
    return (
        f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig))}\n"
        f"export PATH={first}$PATH:{shlex.quote(str(PLUGINS))}"
    )


@contextmanager
def reserved(settings: Settings) -> Iterator[None]:
    """Holds the cluster against other processes, for one `up` or for the whole of a run.

    A built cluster has fixed names and ports, so there is one lock for the machine, whatever
    the state directory and the cache. An existing one is locked for this user and context.
    Within a process it may be entered again: a run holds it around its own `up` and `down`.

    Raises:
        ClusterError: Another process is at work, or the lock cannot be made.
    """
    path = lock_path(settings)
    if path in _held:
        yield
        return
    with _locked(path) as lock:
        lock.truncate(0)
        lock.write(_holder())
        lock.flush()
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)
            # While it is still held: who opened it before finds that it is no longer the one.
            path.unlink(missing_ok=True)


def lock_path(settings: Settings) -> Path:
    """File whose lock stands for the use of the cluster."""
    if settings.provider == "built":
        return _LOCKS / f"{NAME}.lock"
    named = f"{settings.kubeconfig}\0{settings.context}".encode()
    return settings.cache / f"existing-{hashlib.sha256(named).hexdigest()[:16]}.lock"


def _locked(path: Path) -> IO[str]:
    """The file, locked, and still the one of that name: its last holder removes it."""
    while True:
        lock = open(_open(path), "r+", encoding="utf-8", errors="replace")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, lock):
                return lock
        except BlockingIOError:
            user = lock.read(_LONGEST_HOLDER).strip() or "another run"
            remedy = "wait until that has ended"
            lock.close()
            raise ClusterError(f"the cluster is in use by {user}", remedy) from None
        lock.close()


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _holder() -> str:
    """This process in one line."""
    words = " ".join(" ".join(sys.orig_argv).split())
    return f"process {os.getpid()} ({words[: _LONGEST_HOLDER - 30]})"


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except PermissionError as error:
        remedy = "run the same command with sudo"
        raise ClusterError(f"{path} may not be written: {error.strerror}", remedy) from error
    except OSError as error:
        remedy = "make its directory writable"
        raise ClusterError(f"{path} cannot be made: {error.strerror}", remedy) from error


def _program(settings: Settings) -> Path:
    built = binaries.link_directory(settings.cache) / "kubectl"
    if built.exists():
        return built
    if settings.provider == "built":
        raise MissingToolError(f"kubectl is not built ({built})", "run `make cluster-build`")
    found = shutil.which("kubectl")
    if found is None:
        raise MissingToolError("kubectl is not on PATH", "install it, or run `make cluster-build`")
    return Path(found)
