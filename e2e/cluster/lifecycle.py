"""`up` and `down` of the built cluster.

`up` either ends with a Ready node and working DNS or leaves the machine as it was. `down`
needs no record to be whole: it also finds what an interruption left.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
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
    kernel,
    layout,
    network,
    ownership,
    preflight,
    processes,
    procfs,
    readiness,
    removal,
    snapshot,
)
from e2e.cluster.errors import ClusterError, CommandError, ForeignClusterError
from e2e.cluster.progress import Say
from e2e.cluster.settings import Settings
from e2e.interruption import held_off


def up(settings: Settings, say: Say) -> None:
    """Brings the cluster up; on one that is up it only starts what is missing.

    Raises:
        ClusterError: It could not; nothing is left behind, or the message says what.
    """
    layout.of(settings)
    with access.reserved(settings):
        _require_own(settings)
        if is_up(settings):
            _mend(settings, say)
            return
        if removal.traces(settings):
            say("up", "removing what an earlier run left")
            with held_off():
                removal.remove(settings, say)
        preflight.check(settings)
        try:
            _start(settings, say)
        except BaseException as failure:
            with held_off():
                note = _undo(settings, say)
            if isinstance(failure, ClusterError):
                raise type(failure)(failure.problem, note) from failure
            raise


def down(settings: Settings, say: Say) -> list[str]:
    """Removes the cluster.

    Returns:
        What could not be undone, in words.

    Raises:
        ClusterError: The state directory is not one that `up` made, or is in use.
    """
    layout.of(settings)
    with access.reserved(settings):
        _require_own(settings)
        if not removal.traces(settings):
            say("down", "there is no cluster")
            return []
        with held_off():
            return removal.remove(settings, say)


def is_up(settings: Settings) -> bool:
    """Whether an `up` of this boot ended well and no `down` has followed."""
    complete = layout.of(settings).complete
    return complete.exists() and complete.read_text() == procfs.boot_id()


def _require_own(settings: Settings) -> None:
    """Names, ports and rules are fixed, so a machine has one cluster; it must be this one."""
    ownership.require(settings)
    owner = Path(network.owner() or settings.state)
    if owner != settings.state and owner.exists():
        raise ForeignClusterError(
            f"the cluster on this machine is that of PACELINE_STATE={owner}",
            f"run it with that, not with {settings.state}",
        )


def _start(settings: Settings, say: Say) -> None:
    place = layout.of(settings)
    ownership.claim(settings)
    snapshot.take().write(place.snapshot)
    place.make()
    _load_modules(place.modules)
    configs.write_credentials(settings)
    configs.write_configurations(settings, adjusts_oom_score=preflight.may_adjust_oom_score())
    say("configuration", "written")
    cgroups.create()
    network.create(settings.state)
    firewall.create()
    say("network", "ready")
    with ThreadPoolExecutor(max_workers=1) as pool:
        processes.start(settings, "containerd")
        imported = pool.submit(_import_images, settings, say)
        for name in components.ORDER:
            _start_component(settings, name, say)
        imported.result()
    _start_dns(settings, say)
    snapshot.take().write(place.settled)
    place.complete.write_text(procfs.boot_id())
    say("cluster", "up")


def _load_modules(record: Path) -> None:
    """Loads what is missing; each is recorded before, so that `down` takes it away again."""
    for name in kernel.missing():
        with record.open("a") as loaded:
            loaded.write(f"{name}\n")
        kernel.load(name)


def _mend(settings: Settings, say: Say) -> None:
    network.create(settings.state)
    firewall.create()
    for name in components.ORDER:
        if processes.find(settings, name) is None:
            _start_component(settings, name, say)
    readiness.wait_node(settings)
    say("cluster", "is up")


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


def _undo(settings: Settings, say: Say) -> str:
    """Removes what a failed `up` made, and returns where its logs are and what is left."""
    say("up", "did not succeed; removing what was made")
    try:
        kept = f"the logs are kept in {_keep_logs(settings)}"
    except OSError as error:
        kept = f"the logs could not be kept ({error})"
    left = removal.remove(settings, say)
    return kept + (f"; left behind: {'; '.join(left)}" if left else "")


def _keep_logs(settings: Settings) -> Path:
    kept = settings.cache / "logs" / "cluster"
    shutil.rmtree(kept, ignore_errors=True)
    if layout.of(settings).logs.exists():
        shutil.copytree(layout.of(settings).logs, kept, symlinks=True)
    return kept
