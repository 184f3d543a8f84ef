"""Kernel modules that a stock machine has not loaded, and settings that come with them."""

from pathlib import Path

import pytest

from e2e.cluster import debian, kernel, network
from e2e.cluster.errors import ClusterError


def machine(place: Path, *, overlay: bool, bridge: bool) -> Path:
    place.mkdir()
    lines = ["nodev\ttmpfs", "\text4", *(["nodev\toverlay"] if overlay else [])]
    (place / "filesystems").write_text("\n".join(lines))
    if bridge:
        (place / "sys/net/bridge").mkdir(parents=True)
        (place / "sys/net/bridge/bridge-nf-call-iptables").write_text("0\n")
    return place


@pytest.mark.parametrize(
    ("overlay", "bridge", "missing"),
    [
        (True, True, []),
        (True, False, ["br_netfilter"]),
        (False, False, ["overlay", "br_netfilter"]),
    ],
)
def test_missing_modules_are_seen(
    tmp_path: Path, *, overlay: bool, bridge: bool, missing: list[str]
) -> None:
    assert kernel.missing(machine(tmp_path / "proc", overlay=overlay, bridge=bridge)) == missing


def loader(place: Path, words: str) -> None:
    """Puts a `modprobe` into a directory."""
    place.mkdir()
    (place / "modprobe").write_text(f"#!/bin/sh\n{words}\n")
    (place / "modprobe").chmod(0o755)


def test_a_module_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = machine(tmp_path / "proc", overlay=True, bridge=False)
    target = proc / "sys/net/bridge"
    loader(
        tmp_path / "bin",
        f'test "$1" = br_netfilter && mkdir -p {target} && : > {target}/bridge-nf-call-iptables',
    )
    monkeypatch.setattr(kernel, "SYSTEM_PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    kernel.load("br_netfilter", proc)
    assert kernel.missing(proc) == []


def test_one_that_cannot_be_loaded_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = machine(tmp_path / "proc", overlay=True, bridge=False)
    loader(tmp_path / "bin", "echo 'modprobe: FATAL: Module not found' >&2; exit 1")
    monkeypatch.setattr(kernel, "SYSTEM_PATH", str(tmp_path / "bin"))
    with pytest.raises(ClusterError, match=r"lacks br_netfilter.*Module not found") as caught:
        kernel.load("br_netfilter", proc)
    assert "modprobe br_netfilter" in caught.value.remedy


@pytest.mark.parametrize("missing", [True, False])
def test_the_loader_is_a_needed_package_only_where_there_is_something_to_load(
    monkeypatch: pytest.MonkeyPatch, *, missing: bool
) -> None:
    monkeypatch.setattr(kernel, "missing", lambda: ["overlay"] if missing else [])
    monkeypatch.setattr(debian, "_has", lambda program: program != "modprobe")
    assert debian.missing_packages() == (["kmod"] if missing else [])


GOOD = {"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"}


@pytest.mark.parametrize(
    ("present", "words"),
    [
        ({"net/ipv4/ip_forward": "1"}, "bridge-nf-call-iptables is missing"),
        ({**GOOD, "net/ipv4/ip_forward": "0"}, "ip_forward is 0, not 1"),
    ],
)
def test_a_needed_setting_that_is_not_in_force_is_one_line(
    present: dict[str, str], words: str
) -> None:
    network.require_settings(GOOD)
    with pytest.raises(ClusterError, match=words):
        network.require_settings(present)
