"""The machine as a cluster could change it, taken before `up` and compared after `down`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster import cgroups, firewall, network, procfs, residue
from e2e.cluster.firewall import Chain

_LISTS = ("interfaces", "mounts", "rules", "cgroups", "directories")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was there.

    Attributes:
        interfaces: Names of network interfaces.
        mounts: Mount points.
        rules: Firewall rules and chains.
        settings: Kernel settings that the cluster may change.
        cgroups: Whether the cluster's cgroup is there, as a list of none or one.
        directories: Directories outside the state that programs may make, as far as they exist.
    """

    interfaces: tuple[str, ...]
    mounts: tuple[str, ...]
    rules: tuple[str, ...]
    settings: dict[str, str]
    cgroups: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Writes it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))


def take() -> Snapshot:
    """Looks at the machine now."""
    return Snapshot(
        interfaces=tuple(network.interfaces()),
        mounts=tuple(sorted(map(str, procfs.mount_points(Path("/"))))),
        rules=tuple(rule for family in firewall.FAMILIES for rule in firewall.rules(family)),
        settings=network.read_settings(),
        cgroups=(cgroups.ROOT,) if cgroups.exists() else (),
        directories=tuple(residue.present()),
    )


def read(path: Path) -> Snapshot | None:
    """Reads one, or None where there is none to be read."""
    try:
        found = json.loads(path.read_text())
        lists = {name: tuple(found[name]) for name in _LISTS}
        return Snapshot(settings=dict(found["settings"]), **lists)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def chains_in(snapshot: Snapshot) -> set[Chain]:
    """The chains that were there."""
    words = (rule.split() for rule in snapshot.rules)
    return {
        Chain(family, table, first.removeprefix(":"))
        for family, table, first, *_ in words
        if first.startswith(":")
    }


def settings_to_restore(
    before: Snapshot, settled: Snapshot | None, now: Snapshot
) -> dict[str, str]:
    """Kernel settings to write back once the cluster's own interfaces and rules are gone.

    Left alone are those that somebody set anew since, and all of the network where an
    interface or a chain has appeared since: another container engine needs forwarding too.

    Args:
        before: The machine before `up`.
        settled: Right after `up`; None where that did not end well.
        now: The machine now.
    """
    others = set(now.interfaces) - set(before.interfaces) or chains_in(now) - chains_in(before)
    found = {}
    for name, value in before.settings.items():
        written = settled.settings.get(name) if settled else None
        present = now.settings.get(name, value)
        set_since = written not in {None, value} and present != written
        if present != value and not set_since and not (others and name.startswith("net/")):
            found[name] = value
    return found


def left_over(before: Snapshot, after: Snapshot) -> list[str]:
    """What is there now and was not there before, in words."""
    pairs = {
        "interface": (before.interfaces, after.interfaces),
        "mount": (before.mounts, after.mounts),
        "rule": (before.rules, after.rules),
        "cgroup": (before.cgroups, after.cgroups),
        "directory": (before.directories, after.directories),
    }
    found = [
        f"{kind} {item}"
        for kind, (old, new) in pairs.items()
        for item in sorted(set(new) - set(old))
    ]
    changed = [
        f"setting {name} is {after.settings[name]}, was {value}"
        for name, value in sorted(before.settings.items())
        if name in after.settings and after.settings[name] != value
    ]
    return found + changed
