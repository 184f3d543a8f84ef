"""The build: flags that matter, one module at a time, and nothing half done."""

from pathlib import Path

import pytest

from e2e.cluster import binaries, build, debian
from e2e.cluster.errors import BuildError, MissingToolError


def silent(_name: str, _text: str) -> None:
    """Says nothing."""


@pytest.mark.parametrize("module", sorted(build.RECIPES))
def test_go_modules_are_read_only_and_versions_complete(module: str) -> None:
    words = build.command(module, Path("/out"))
    assert words[:2] == ["go", "build"]
    assert "-mod=readonly" in words
    source = binaries.MODULES / module
    assert (source / "go.mod").is_file()
    assert (source / "go.sum").is_file()


def test_versions_are_linked_in() -> None:
    required = (binaries.MODULES / "kubernetes" / "go.mod").read_text()
    words = " ".join(build.command("kubernetes", Path("/out")))
    version = next(v for name, v in build.RECIPES["kubernetes"].variables if "gitVersion" in name)
    assert f"k8s.io/kubernetes {version}" in required
    assert f"gitVersion={version}" in words
    helm = (binaries.MODULES / "helm" / "go.mod").read_text()
    assert f"helm.sh/helm/v4 {build.RECIPES['helm'].variables[0][1]}" in helm


def test_every_program_is_built_by_its_module() -> None:
    assert set(build.RECIPES) | {"pause"} == set(binaries.PROGRAMS)
    assert build.command("kubernetes", Path("/out"))[-2] == "/out/kubebox"
    names = [Path(package).name for package in build.RECIPES["containerd"].packages]
    assert tuple(names) == binaries.PROGRAMS["containerd"]


def test_a_small_program_is_really_compiled(tmp_path: Path) -> None:
    build._build_module(tmp_path, "pause", silent)
    assert binaries.require(tmp_path, "pause").stat().st_mode & 0o111
    assert [path.name for path in (tmp_path / "bin").iterdir()] == [
        binaries.module_directory(tmp_path, "pause").name
    ]


def test_a_failed_compile_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "command", lambda _module, _target: ["gcc", "absent.c"])
    with pytest.raises(BuildError, match=r"absent\.c"):
        build._build_module(tmp_path, "pause", silent)
    assert list((tmp_path / "bin").iterdir()) == []


@pytest.mark.parametrize(("module", "tool"), [("helm", "go"), ("pause", "gcc")])
def test_a_missing_compiler_is_one_line(
    module: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=f"{tool} is not on PATH"):
        build._build_module(tmp_path, module, silent)


def test_links_cover_every_program() -> None:
    links = binaries.links(Path("/cache"))
    assert {"kubectl", "helm", "ctr", "containerd-shim-runc-v2", "coredns"} <= set(links)
    assert links["kubectl"] == links["kubelet"]


def test_a_changed_source_changes_its_key_alone(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module a")
    first = binaries.module_key(tmp_path)
    (tmp_path / "main.go").write_text("package main")
    second = binaries.module_key(tmp_path)
    (tmp_path / "notes.txt").write_text("not a source")
    assert first != second
    assert binaries.module_key(tmp_path) == second


def test_missing_packages_are_named_with_their_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "PACKAGES", {"no-such-program": "b", "/no/such/file": "a"})
    with pytest.raises(MissingToolError) as caught:
        debian.require_packages()
    assert caught.value.remedy == "`apt-get install a b`"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("go: downloading x\nmain.go:3: error: no y\nexit status 1", "main.go:3: error: no y"),
        ("one\ntwo\n", "two"),
        ("", "no message"),
    ],
)
def test_the_line_that_tells_most_is_shown(output: str, line: str) -> None:
    assert build.telling_line(output) == line
