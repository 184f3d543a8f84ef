"""One process at a time uses the cluster, for as long as it needs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import access, binaries
from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import Settings
from e2e.kubectl import PLUGINS

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from e2e.cluster import access
from e2e.cluster.settings import Settings
access._LOCKS = Path(sys.argv[1])
with access.reserved(Settings(state=Path("/elsewhere/state"), cache=Path("/elsewhere/cache"))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(access, "_LOCKS", tmp_path)
    return Settings(state=tmp_path / "state", cache=tmp_path / "cache")


@contextmanager
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the cluster, with another state directory and cache."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield child


def test_another_process_is_refused_in_one_line_until_it_ends(
    settings: Settings, tmp_path: Path
) -> None:
    with holder(tmp_path) as child:
        used = f"in use by process {child.pid} "
        with pytest.raises(ClusterError, match=used) as caught, access.reserved(settings):
            raise AssertionError
        assert "\n" not in caught.value.problem
        child.communicate()
    with access.reserved(settings):
        pass


def test_a_killed_holder_holds_no_more(settings: Settings, tmp_path: Path) -> None:
    with holder(tmp_path) as child:
        child.kill()
        child.communicate()
    with access.reserved(settings):
        pass


def test_a_run_may_bring_the_cluster_up_and_down(settings: Settings, tmp_path: Path) -> None:
    with access.reserved(settings):
        with access.reserved(settings):
            pass
        # The inner end does not let go of what the outer one holds.
        done = subprocess.run(
            [sys.executable, "-c", HOLD, str(tmp_path)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "in use by process" in done.stderr
    assert "held" not in done.stdout


def test_a_link_in_place_of_the_lock_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    access.lock_path(settings).symlink_to(target)
    with pytest.raises(ClusterError, match="cannot be made"), access.reserved(settings):
        raise AssertionError
    assert target.read_text() == "kept"


def test_existing_clusters_are_locked_by_context(settings: Settings, tmp_path: Path) -> None:
    def lock(context: str) -> Path:
        existing = Settings(
            state=settings.state, cache=settings.cache, provider="existing", context=context
        )
        return access.lock_path(existing)

    assert lock("a") == lock("a")
    assert len({lock("a"), lock("b"), access.lock_path(settings)}) == 3


def test_nothing_is_left_of_the_lock(settings: Settings) -> None:
    with access.reserved(settings):
        assert access.lock_path(settings).exists()
    assert not access.lock_path(settings).exists()


def test_a_lock_that_its_holder_removed_meanwhile_is_no_lock(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, really = access.lock_path(settings), access._open
    opened: list[int] = []

    def late(where: Path) -> int:
        opened.append(really(where))
        if len(opened) == 1:
            path.unlink()
        return opened[-1]

    monkeypatch.setattr(access, "_open", late)
    with access.reserved(settings):
        assert len(opened) == 2
        assert f"process {os.getpid()}" in path.read_text()


def test_the_lines_for_people_are_for_a_shell(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path / "a state", cache=tmp_path / "a cache")
    programs = binaries.link_directory(settings.cache)
    programs.mkdir(parents=True)
    (programs / "kubectl").write_text("#!/bin/sh\n")
    (programs / "kubectl").chmod(0o755)
    shown = access.exports(settings)
    script = f"{shown}\necho $KUBECONFIG; command -v kubectl; command -v kubectl-paceline"
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        str(settings.kubeconfig),
        str(programs / "kubectl"),
        str(PLUGINS / "kubectl-paceline"),
    ]


def test_an_existing_cluster_keeps_its_users_programs(tmp_path: Path) -> None:
    theirs = Settings(
        state=tmp_path, cache=tmp_path, provider="existing", foreign_kubeconfig=Path("/k/config")
    )
    assert access.exports(theirs) == f"export KUBECONFIG=/k/config\nexport PATH=$PATH:{PLUGINS}"
