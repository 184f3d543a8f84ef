"""The state directory: what lies where. Everything here vanishes with `down`."""

from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import Settings
from e2e.cluster.store import Keys

# containerd puts a shim's socket into `run/s`, and refuses a directory above 42 characters.
_LONGEST_STATE = 36


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below the state directory."""

    root: Path

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def store_keys(self) -> Keys:
        """Certificates of etcd and its only client."""
        return Keys(self.pki / "etcd")

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def records(self) -> Path:
        return self.root / "processes"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def snapshot(self) -> Path:
        return self.root / "before.json"

    @property
    def settled(self) -> Path:
        """The machine right after an `up` that ended well."""
        return self.root / "after.json"

    @property
    def modules(self) -> Path:
        """Names of the kernel modules that `up` loaded, one a line."""
        return self.root / "modules"

    @property
    def complete(self) -> Path:
        """Exists once an `up` has ended well."""
        return self.root / "complete"

    def kubeconfig(self, user: str) -> Path:
        return self.root / "kubeconfig" / f"{user}.conf"

    def make(self) -> None:
        """Creates the directories."""
        self.pki.mkdir(mode=0o700, exist_ok=True)
        for path in (self.config, self.logs, self.records, self.run, self.images):
            path.mkdir(exist_ok=True)
        (self.config / "cni").mkdir(exist_ok=True)


def of(settings: Settings) -> Layout:
    """Layout of the configured state directory.

    Raises:
        ClusterError: The path is too long for Unix sockets, or too short to be deleted safely.
    """
    root = settings.state
    if len(str(root)) > _LONGEST_STATE:
        raise ClusterError(
            f"PACELINE_STATE={root} is longer than {_LONGEST_STATE} characters",
            "choose a shorter path: Unix sockets lie below it",
        )
    if len(root.parts) < 3:
        raise ClusterError(f"PACELINE_STATE={root} would be deleted by down", "choose a subfolder")
    return Layout(root)
