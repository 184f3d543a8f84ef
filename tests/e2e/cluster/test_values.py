"""Helm values: host directories at their own paths, read-only, each once."""

from pathlib import Path

import pytest

from e2e.cluster import host_mounts, values
from e2e.cluster.errors import ClusterError
from e2e.cluster.host_mounts import HostDirectory, HostEnvironment, outermost, unreadable
from e2e.cluster.settings import Settings
from e2e.setup.place import ENGINE_VENV, OPERATOR_VENV, ROOT


@pytest.mark.parametrize(
    ("directories", "kept"),
    [
        ({"usr": "/usr", "python": "/usr"}, ["usr"]),
        ({"python": "/usr/local", "usr": "/usr"}, ["usr"]),
        ({"usr": "/usr", "other": "/usrlocal"}, ["usr", "other"]),
        ({"venv": "/a/.venv", "source": "/a/src", "root": "/a"}, ["root"]),
    ],
)
def test_nested_directories_are_mounted_once(directories: dict[str, str], kept: list[str]) -> None:
    paths = {name: Path(path) for name, path in directories.items()}
    assert [directory.name for directory in outermost(paths)] == kept


def test_a_split_usr_mounts_the_directories_beside_it() -> None:
    merged = dict.fromkeys(("bin", "sbin", "lib", "lib64"), "usr")
    assert list(host_mounts.system_directories(merged)) == ["host-usr"]
    assert set(host_mounts.system_directories({})) > {"host-usr", "host-bin", "host-lib"}


def test_the_interpreter_behind_an_environment_is_found(tmp_path: Path) -> None:
    real = tmp_path / "python-3" / "bin" / "python3"
    real.parent.mkdir(parents=True)
    real.touch()
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to(real)
    assert host_mounts.python_prefix(tmp_path / "venv") == tmp_path / "python-3"


@pytest.mark.parametrize(("member", "venv"), [("engine", ENGINE_VENV), ("operator", OPERATOR_VENV)])
def test_an_environment_holds_venv_sources_and_path(member: str, venv: Path) -> None:
    host = host_mounts.environment(member, Path("/cache"))
    paths = [directory.path for directory in host.directories]
    assert {venv, ROOT / member / "src", Path("/usr")} <= set(paths)
    assert host.variables["PATH"].startswith(f"{venv}/bin:")
    assert host.variables["HOME"] == host_mounts.SCRATCH
    assert all(mount["readOnly"] for mount in host.mounts)
    assert [v["name"] for v in host.volumes] == [m["name"] for m in host.mounts]


def test_only_the_engine_sees_kernels_and_only_a_load_generator_the_checkout() -> None:
    engine = host_mounts.environment("engine", Path("/cache"))
    operator = host_mounts.environment("operator", Path("/cache"))
    load = host_mounts.environment("operator", Path("/cache"), extra=[ROOT / "e2e"])
    assert Path("/cache/kernels") in [directory.path for directory in engine.directories]
    assert "PACELINE_CACHE" not in operator.variables
    assert ROOT / "e2e" in [directory.path for directory in load.directories]
    assert load.variables["PYTHONPATH"] == str(ROOT)


def test_an_overlay_touches_one_container() -> None:
    host = HostEnvironment([HostDirectory("host-usr", Path("/usr"))], {"A": "b"})
    assert values.pod_overlay("engine", host) == {
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "volumeMounts": [{"name": "host-usr", "mountPath": "/usr", "readOnly": True}],
                    "env": [{"name": "A", "value": "b"}],
                }
            ],
            "volumes": [{"name": "host-usr", "hostPath": {"path": "/usr", "type": "Directory"}}],
        }
    }


def test_chart_values_name_the_host_image_everywhere(tmp_path: Path) -> None:
    rendered = values.chart_values(Settings(state=tmp_path / "state", cache=tmp_path))
    images = {rendered["image"], rendered["engine"]["image"], rendered["proxy"]["image"]}
    assert images == {"paceline.local/host:v1"}
    assert rendered["model"]["hostPath"]["prefixes"] == ["/var/lib/paceline/models"]
    assert (tmp_path / "kernels").is_dir()


def test_a_missing_environment_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_mounts, "MEMBERS", {m: tmp_path / m for m in ("engine", "operator")})
    with pytest.raises(ClusterError, match="does not exist"):
        values.chart_values(Settings(state=tmp_path / "state", cache=tmp_path))


def test_a_closed_directory_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "open").mkdir(mode=0o755)
    found = unreadable([HostDirectory(n, tmp_path / n) for n in ("closed", "open")])
    assert found == [tmp_path / "closed"]
