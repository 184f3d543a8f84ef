"""Before and after: what a cluster leaves is named, what was there before is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from e2e.cluster import residue, snapshot
from e2e.cluster.firewall import Chain
from e2e.cluster.snapshot import Snapshot, chains_in, left_over, settings_to_restore

BEFORE = Snapshot(
    interfaces=("eth0", "lo"),
    mounts=("/", "/proc"),
    rules=("iptables nat -A PREROUTING -j DOCKER", "iptables nat :DOCKER"),
    settings={"kernel/panic": "1"},
)


def test_nothing_changed_leaves_nothing() -> None:
    assert left_over(BEFORE, BEFORE) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (replace(BEFORE, interfaces=("eth0", "lo", "veth1")), "interface veth1"),
        (replace(BEFORE, mounts=("/", "/proc", "/x")), "mount /x"),
        (
            replace(BEFORE, rules=(*BEFORE.rules, "iptables nat :KUBE-A")),
            "rule iptables nat :KUBE-A",
        ),
        (replace(BEFORE, settings={"kernel/panic": "10"}), "setting kernel/panic is 10, was 1"),
        (replace(BEFORE, cgroups=("paceline-e2e",)), "cgroup paceline-e2e"),
        (replace(BEFORE, directories=("/var/lib/cni",)), "directory /var/lib/cni"),
    ],
)
def test_each_kind_of_rest_is_named(after: Snapshot, words: str) -> None:
    assert left_over(BEFORE, after) == [words]


def test_what_others_took_away_is_not_ours() -> None:
    assert left_over(BEFORE, replace(BEFORE, interfaces=("lo",))) == []


def test_chains_are_read_back() -> None:
    assert chains_in(BEFORE) == {Chain("iptables", "nat", "DOCKER")}


def test_it_survives_the_disk(tmp_path: Path) -> None:
    BEFORE.write(tmp_path / "before.json")
    assert snapshot.read(tmp_path / "before.json") == BEFORE


@pytest.mark.parametrize("content", ["", "{", "[]", '{"interfaces": []}'])
def test_a_broken_file_reads_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "before.json").write_text(content)
    assert snapshot.read(tmp_path / "before.json") is None


@pytest.mark.parametrize(
    ("settled", "now", "restored"),
    [
        ({"vm/a": "1"}, {"vm/a": "1"}, {"vm/a": "0"}),  # as the cluster left it
        (None, {"vm/a": "1"}, {"vm/a": "0"}),  # `up` was cut short
        ({"vm/a": "1"}, {"vm/a": "0"}, {}),  # as it was
        ({"vm/a": "1"}, {"vm/a": "2"}, {}),  # somebody set it since
        ({"vm/a": "0"}, {"vm/a": "1"}, {"vm/a": "0"}),  # the cluster wrote it late
        ({"vm/a": "1"}, {}, {}),  # the kernel has it no more
    ],
)
def test_settings_go_back_unless_somebody_set_them_since(
    settled: dict[str, str] | None, now: dict[str, str], restored: dict[str, str]
) -> None:
    before = replace(BEFORE, settings={"vm/a": "0"})
    after = None if settled is None else replace(BEFORE, settings=settled)
    found = settings_to_restore(before, after, replace(BEFORE, settings=now))
    assert found == restored


@pytest.mark.parametrize(
    "others",
    [
        replace(BEFORE, interfaces=(*BEFORE.interfaces, "docker0")),
        replace(BEFORE, rules=(*BEFORE.rules, "iptables nat :PODMAN")),
    ],
)
def test_forwarding_stays_on_where_another_network_came_up(others: Snapshot) -> None:
    before = replace(BEFORE, settings={"net/ipv4/ip_forward": "0", "vm/a": "0"})
    changed = {"net/ipv4/ip_forward": "1", "vm/a": "1"}
    now = replace(others, settings=changed)
    settled = replace(BEFORE, settings=changed)
    assert settings_to_restore(before, settled, now) == {"vm/a": "0"}
    alone = replace(BEFORE, settings=changed)
    assert settings_to_restore(before, settled, alone) == before.settings


def test_a_new_directory_stays_while_others_use_it(tmp_path: Path) -> None:
    state, new = tmp_path / "state", tmp_path / "cni"
    (new / "results").mkdir(parents=True)
    (new / "results" / "cni-loopback-1-lo").write_text(f'{{"netns":"{state}/run/netns/a"}}')
    (new / "results" / "cni-loopback-2-lo").write_text('{"netns":"/run/netns/b"}')
    residue.remove(state, [], [new])
    assert [path.name for path in (new / "results").iterdir()] == ["cni-loopback-2-lo"]


def test_residue_goes_with_a_directory_that_was_not_there(tmp_path: Path) -> None:
    new = tmp_path / "kubelet"
    (new / "device-plugins").mkdir(parents=True)
    (new / "device-plugins" / "kubelet.sock").touch()
    residue.remove(tmp_path / "state", [], [new])
    assert not new.exists()


def test_residue_in_a_foreign_directory_is_told_by_name_and_target(tmp_path: Path) -> None:
    state, old = tmp_path / "state", tmp_path / "containers"
    old.mkdir()
    (old / "paceline-e2e-123-eth0").touch()
    (old / "ours.log").symlink_to(state / "logs" / "pods" / "0.log")
    (old / "theirs.log").symlink_to(tmp_path / "elsewhere")
    (old / "their-result").touch()
    residue.remove(state, [str(old)], [old])
    assert sorted(path.name for path in old.iterdir()) == ["their-result", "theirs.log"]
