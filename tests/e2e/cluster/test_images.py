"""OCI archives: digests agree with blobs, and the host image has what programs expect."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from e2e.cluster.images import HOST_IMAGE, Image, host_image, host_links, pause_image, write_archive


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        members = [(member.name, archive.extractfile(member)) for member in archive]
    with tarfile.open(path) as archive:
        return {
            name: stream.read()
            for name, _ in members
            if (stream := archive.extractfile(name)) is not None
        }


def layer_of(files: dict[str, bytes]) -> tarfile.TarFile:
    index = json.loads(files["index.json"])
    manifest = json.loads(files[blob(index["manifests"][0]["digest"])])
    data = gzip.decompress(files[blob(manifest["layers"][0]["digest"])])
    config = json.loads(files[blob(manifest["config"]["digest"])])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(data).hexdigest()}"]
    return tarfile.open(fileobj=io.BytesIO(data))


def blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


@pytest.mark.parametrize("image", [pause_image(b"program"), host_image({"lib": "usr/lib"})])
def test_every_blob_is_named_by_its_digest(image: Image, tmp_path: Path) -> None:
    write_archive(image, tmp_path / "image.tar")
    files = contents(tmp_path / "image.tar")
    blobs = {name: data for name, data in files.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    assert all(name == f"blobs/sha256/{hashlib.sha256(d).hexdigest()}" for name, d in blobs.items())
    index = json.loads(files["index.json"])
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == image.name
    layer_of(files).close()


def test_the_same_image_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_archive(pause_image(b"program"), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_host_image_links_as_the_machine_does(tmp_path: Path) -> None:
    write_archive(host_image({"lib": "usr/lib"}), tmp_path / "image.tar")
    with layer_of(contents(tmp_path / "image.tar")) as layer:
        assert layer.getmember("lib").linkname == "usr/lib"
        assert layer.getmember("bin").isdir()
        assert layer.getmember("tmp").mode == 0o1777
        passwd = layer.extractfile("etc/passwd")
        assert passwd is not None
        assert b"nonroot:x:65532:65532" in passwd.read()


def test_pause_starts_by_itself_and_the_host_image_does_not(tmp_path: Path) -> None:
    write_archive(pause_image(b"program"), tmp_path / "image.tar")
    with layer_of(contents(tmp_path / "image.tar")) as layer:
        assert layer.getmember("pause").mode == 0o755
    assert pause_image(b"").entrypoint == ("/pause",)
    assert host_image({}).entrypoint == ()
    assert host_image({}).name == HOST_IMAGE


def test_links_of_a_merged_usr_are_found(tmp_path: Path) -> None:
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "bin").mkdir()
    assert host_links(tmp_path) == {"lib": "usr/lib"}
