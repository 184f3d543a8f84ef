"""`up` and `down` of the built cluster.

`up` either ends with a Ready node and working DNS or leaves the machine as it was. `down`
needs no record to be whole: it also finds what an interruption left.
"""

import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import (
    access,
    binaries,
    cgroups,
    components,
    configs,
    dns,
    firewall,
    images,
    layout,
    network,
    preflight,
    processes,
    procfs,
    readiness,
    residue,
    snapshot,
)
from e2e.cluster.commands import attempt
from e2e.cluster.errors import ClusterError, CommandError
from e2e.cluster.progress import Say
from e2e.cluster.settings import Settings

_SHIM_PATIENCE_S = 0.5


def up(settings: Settings, say: Say) -> None:
    """Brings the cluster up; on one that is up it only starts what is missing.

    Raises:
        ClusterError: It could not; nothing is left behind.
    """
    with access.exclusive(settings):
        if is_up(settings):
            _mend(settings, say)
            return
        if traces(settings):
            say("up", "removing what an earlier run left")
            _remove(settings, say)
        preflight.check(settings)
        try:
            _start(settings, say)
        except BaseException as failure:
            say("up", "did not succeed; removing what was made")
            kept = _keep_logs(settings)
            with _uninterrupted():
                _remove(settings, say)
            if isinstance(failure, ClusterError):
                raise type(failure)(failure.problem, f"the logs are kept in {kept}") from failure
            raise


def down(settings: Settings, say: Say) -> list[str]:
    """Removes the cluster, and returns what could not be undone, in words."""
    with access.exclusive(settings), _uninterrupted():
        if not traces(settings):
            say("down", "there is no cluster")
            return []
        return _remove(settings, say)


def is_up(settings: Settings) -> bool:
    """Whether an `up` of this boot ended well and no `down` has followed."""
    complete = layout.of(settings).complete
    return complete.exists() and complete.read_text() == procfs.boot_id()


def traces(settings: Settings) -> bool:
    """Whether anything of a cluster is on this machine, also half of one."""
    return (
        settings.state.exists()
        or network.exists()
        or cgroups.exists()
        or any(chain.name == firewall.CHAIN for chain in firewall.chains())
        or bool(processes.strays(settings))
    )


def _start(settings: Settings, say: Say) -> None:
    place = layout.of(settings)
    place.root.mkdir(parents=True, exist_ok=True)
    snapshot.take().write(place.snapshot)
    place.make()
    configs.write_credentials(settings)
    configs.write_configurations(settings, adjusts_oom_score=preflight.may_adjust_oom_score())
    say("configuration", "written")
    cgroups.create()
    network.create()
    firewall.create()
    say("network", "ready")
    with ThreadPoolExecutor(max_workers=1) as pool:
        processes.start(settings, "containerd")
        imported = pool.submit(_import_images, settings, say)
        for name in components.ORDER:
            _start_component(settings, name, say)
        imported.result()
    _start_dns(settings, say)
    place.complete.write_text(procfs.boot_id())
    say("cluster", f"up; KUBECONFIG={settings.kubeconfig}")


def _mend(settings: Settings, say: Say) -> None:
    network.create()
    firewall.create()
    for name in components.ORDER:
        if processes.find(settings, name) is None:
            _start_component(settings, name, say)
    readiness.wait_node(settings)
    say("cluster", f"is up; KUBECONFIG={settings.kubeconfig}")


def _start_component(settings: Settings, name: str, say: Say) -> None:
    processes.start(settings, name)
    processes.wait_healthy(settings, name)
    say(name, "ready")


def _import_images(settings: Settings, say: Say) -> None:
    processes.wait_healthy(settings, "containerd")
    pause = binaries.require(settings.cache, "pause").read_bytes()
    for image in (images.pause_image(pause), images.host_image(images.host_links())):
        name = image.name.rpartition("/")[2].replace(":", "-")
        archive = layout.of(settings).images / f"{name}.tar"
        images.write_archive(image, archive)
        done = processes.containerd_client(settings, "images", "import", str(archive))
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise CommandError(f"image {image.name} was not imported: {last}", "see containerd.log")
    say("images", "imported")


def _start_dns(settings: Settings, say: Say) -> None:
    kubectl = access.kubectl(settings, dns.NAMESPACE)
    readiness.wait_namespace(settings, dns.NAMESPACE)
    kubectl.apply(*dns.objects(binaries.require(settings.cache, "kubebox")))
    readiness.wait_node(settings)
    say("node", "Ready")
    kubectl.wait("--for=condition=Available", f"deployment/{dns.NAME}", timeout_s=60)
    say("dns", "ready")


def _remove(settings: Settings, say: Say) -> list[str]:
    """Undoes everything, in an order in which nothing comes back."""
    place = layout.of(settings)
    before = snapshot.read(place.snapshot)
    # Without the kubelet no container is started again; the rest follows.
    for name in ("kubelet", *(n for n in reversed(components.ORDER) if n != "kubelet")):
        processes.stop(settings, name)
    for stray in processes.strays(settings):
        stray.end(_SHIM_PATIENCE_S)
    cgroups.end()
    say("processes", "ended")
    _unmount(place.root)
    network.remove()
    firewall.remove(snapshot.chains_in(before) if before else ())
    if before:
        network.restore_settings(before.settings)
    say("network", "removed")
    _delete(place.root)
    residue.remove(place.root, before.directories if before else residue.present())
    left = snapshot.left_over(before, snapshot.take()) if before else []
    say("cluster", "down" if not left else f"down, but left: {'; '.join(left)}")
    return left


def _unmount(root: Path) -> None:
    for point in procfs.mount_points(root):
        if attempt(["umount", str(point)]).returncode:
            attempt(["umount", "--lazy", str(point)])


def _delete(root: Path) -> None:
    """Deletes the state directory, but never through a mount."""
    if mounted := procfs.mount_points(root):
        raise CommandError(f"{mounted[0]} is still mounted", f"`umount {mounted[0]}`, then again")
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():
        shutil.rmtree(root)


def _keep_logs(settings: Settings) -> Path:
    kept = settings.cache / "logs" / "cluster"
    shutil.rmtree(kept, ignore_errors=True)
    if layout.of(settings).logs.exists():
        shutil.copytree(layout.of(settings).logs, kept, symlinks=True)
    return kept


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A clean-up that is cut short would leave what nobody looks for."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)
