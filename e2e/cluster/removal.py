"""Undoes all that an `up` did, whole or half, and says what could not be undone."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from e2e.cluster import (
    cgroups,
    components,
    firewall,
    kernel,
    layout,
    network,
    ownership,
    processes,
    procfs,
    residue,
    snapshot,
)
from e2e.cluster.commands import attempt
from e2e.cluster.errors import ClusterError, CommandError
from e2e.cluster.progress import Say
from e2e.cluster.settings import BRIDGE, Settings
from e2e.cluster.snapshot import Snapshot

_SHIM_PATIENCE_S = 0.5

Step = tuple[str, Callable[[], None]]
"""Name of what a step ends or removes, and the step."""


def traces(settings: Settings) -> bool:
    """Whether anything of a cluster is on this machine, also half of one."""
    return bool(rest(settings))


def remove(settings: Settings, say: Say) -> list[str]:
    """Removes the cluster; a step that fails keeps none of the others from being done.

    Returns:
        What is left, in words.
    """
    place = layout.of(settings)
    before, settled = snapshot.read(place.snapshot), snapshot.read(place.settled)
    loaded = _loaded(place.modules)
    failed = perform(
        [
            ("processes", lambda: _end_processes(settings)),
            ("cgroup", cgroups.end),
            ("mounts", lambda: _unmount(place.root)),
            ("bridge", network.remove),
            ("rules", lambda: _remove_rules(before)),
            ("settings", lambda: _restore(before, settled)),
            ("modules", lambda: _unload(loaded)),
            ("files elsewhere", lambda: _clear_residue(place.root, before)),
            ("state", lambda: _delete(settings)),
        ],
        say,
    )
    left = [*failed, *rest(settings), *_changes(before, settled)]
    say("cluster", "down" if not left else f"down, but left: {'; '.join(left)}")
    return left


def perform(steps: Sequence[Step], say: Say) -> list[str]:
    """Does every step, and returns those that failed, each with its reason."""
    failed = []
    for name, step in steps:
        try:
            step()
        except (ClusterError, OSError) as error:
            reason = error.problem if isinstance(error, ClusterError) else str(error)
            failed.append(f"{name} ({reason})")
        else:
            say(name, "removed")
    return failed


def rest(settings: Settings) -> list[str]:
    """What of a cluster is on this machine, in words, with or without a record of it."""
    found = [f"process {each.pid} ({name})" for name, each in processes.strays(settings)]
    found += [f"process {pid} in the cgroup" for pid in sorted(cgroups.processes())]
    if network.exists():
        found.append(f"interface {BRIDGE}")
    if cgroups.exists():
        found.append(f"cgroup {cgroups.ROOT}")
    if any(chain.name == firewall.CHAIN for chain in firewall.chains()):
        found.append(f"firewall chain {firewall.CHAIN}")
    if settings.state.exists():
        found.append(f"directory {settings.state}")
    return found


def _changes(before: Snapshot | None, settled: Snapshot | None) -> list[str]:
    if before is None:
        return []
    after = snapshot.take()
    expected = snapshot.settings_to_restore(before, settled, after)
    return snapshot.left_over(replace(before, settings=expected), after)


def _end_processes(settings: Settings) -> None:
    # Without the kubelet no container is started again; the rest follows.
    for name in ("kubelet", *(n for n in reversed(components.ORDER) if n != "kubelet")):
        processes.stop(settings, name)
    for _, stray in processes.strays(settings):
        stray.end(_SHIM_PATIENCE_S)


def _unmount(root: Path) -> None:
    for point in procfs.mount_points(root):
        if attempt(["umount", str(point)]).returncode:
            attempt(["umount", "--lazy", str(point)])


def _remove_rules(before: Snapshot | None) -> None:
    if before:
        firewall.remove(snapshot.chains_in(before))
    elif any(chain.name == firewall.CHAIN for chain in firewall.chains()):
        # Ours is made only where there is none of Kubernetes', so these are ours as well.
        firewall.remove()


def _restore(before: Snapshot | None, settled: Snapshot | None) -> None:
    if before:
        now = snapshot.take()
        network.restore_settings(snapshot.settings_to_restore(before, settled, now))


def _loaded(record: Path) -> list[str]:
    return record.read_text().split() if record.exists() else []


def _unload(names: list[str]) -> None:
    for name in reversed(names):
        kernel.unload(name)


def _clear_residue(root: Path, before: Snapshot | None) -> None:
    residue.remove(root, before.directories if before else residue.present())


def _delete(settings: Settings) -> None:
    """Deletes the state directory, but only an own one and never through a mount."""
    ownership.require(settings)
    root = settings.state
    if not root.exists():
        return
    if mounted := procfs.mount_points(root):
        raise CommandError(f"{mounted[0]} is still mounted", f"`umount {mounted[0]}`, then again")
    # The marker goes last: a deletion cut short can be taken up again.
    for path in root.iterdir():
        if path == ownership.marker(settings):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    ownership.marker(settings).unlink(missing_ok=True)
    root.rmdir()
