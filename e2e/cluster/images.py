"""The cluster's two images, written as OCI archives: no registry, nothing downloaded.

`PAUSE_IMAGE` holds one static program. `HOST_IMAGE` is empty but for the directories, links
and accounts that a program expects; what runs in it comes in through read-only mounts.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAUSE_IMAGE = "paceline.local/pause:v1"
HOST_IMAGE = "paceline.local/host:v1"

NONROOT = 65532
"""User and group id of `nonroot`, the account that pods run under."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_DIRECTORIES = ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "var", "var/lib", "var/tmp")
_LINKABLE = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
_ACCOUNTS = f"""\
root:x:0:0:root:/:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/:/usr/sbin/nologin
nonroot:x:{NONROOT}:{NONROOT}:nonroot:/tmp:/usr/sbin/nologin
"""
_GROUPS = f"root:x:0:\nnogroup:x:65534:\nnonroot:x:{NONROOT}:\n"
_NAME_SERVICES = "passwd: files\ngroup: files\nhosts: files dns\n"


@dataclass(frozen=True, slots=True)
class Image:
    """What an image holds, and how its containers start.

    Attributes:
        name: Reference with a tag.
        files: Content of regular files by path without a leading slash.
        directories: Paths, parents first.
        links: Target of each symbolic link by path.
        entrypoint: Program and arguments; empty where every pod names its own.
        executable: Paths of `files` that get mode 0755.
    """

    name: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    directories: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    executable: frozenset[str] = frozenset()


def pause_image(program: bytes) -> Image:
    """The sandbox image around a static `pause` program."""
    return Image(
        PAUSE_IMAGE,
        files={"pause": program},
        entrypoint=("/pause",),
        executable=frozenset({"pause"}),
    )


def host_image(links: Mapping[str, str]) -> Image:
    """The image that host directories are mounted into.

    Args:
        links: The machine's own top-level links, such as `lib` to `usr/lib`.
    """
    files = {"etc/passwd": _ACCOUNTS, "etc/group": _GROUPS, "etc/nsswitch.conf": _NAME_SERVICES}
    return Image(
        HOST_IMAGE,
        files={path: text.encode() for path, text in files.items()},
        directories=[*_DIRECTORIES, *(name for name in _LINKABLE if name not in links)],
        links=links,
    )


def host_links(root: Path = Path("/")) -> dict[str, str]:
    """Top-level directories of this machine that are links, as where /usr is merged."""
    found = {name: root / name for name in _LINKABLE if (root / name).is_symlink()}
    return {name: os.readlink(path).lstrip("/") for name, path in found.items()}


def write_archive(image: Image, path: Path) -> None:
    """Writes the image as an OCI archive; the same image gives the same bytes."""
    layer = _layer(image)
    packed = gzip.compress(layer, mtime=0)
    config = _encode(_config(image, f"sha256:{hashlib.sha256(layer).hexdigest()}"))
    manifest = _encode(_manifest(config, packed))
    blobs = {_blob_path(blob): blob for blob in (packed, config, manifest)}
    layout = _encode({"imageLayoutVersion": "1.0.0"})
    content = {"oci-layout": layout, "index.json": _encode(_index(image, manifest)), **blobs}
    with tarfile.open(path, "w") as archive:
        for name, data in content.items():
            _add_file(archive, name, data, 0o644)


def _layer(image: Image) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in image.directories:
            _add(archive, name, tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755)
        for name, data in image.files.items():
            _add_file(archive, name, data, 0o755 if name in image.executable else 0o644)
        for name, target in image.links.items():
            _add(archive, name, tarfile.SYMTYPE, 0o777, target)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, kind: bytes, mode: int, target: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, mode, target
    archive.addfile(entry)


def _add_file(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _config(image: Image, layer_digest: str) -> dict[str, Any]:
    run: dict[str, Any] = {"Env": [f"PATH={SEARCH_PATH}"], "WorkingDir": "/"}
    if image.entrypoint:
        run["Entrypoint"] = list(image.entrypoint)
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
    }


def _manifest(config: bytes, layer: bytes) -> dict[str, Any]:
    prefix = "application/vnd.oci.image"
    return {
        "schemaVersion": 2,
        "mediaType": f"{prefix}.manifest.v1+json",
        "config": _descriptor(f"{prefix}.config.v1+json", config),
        "layers": [_descriptor(f"{prefix}.layer.v1.tar+gzip", layer)],
    }


def _index(image: Image, manifest: bytes) -> dict[str, Any]:
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    entry["annotations"] = {
        "io.containerd.image.name": image.name,
        "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
    }
    return {"schemaVersion": 2, "manifests": [entry]}


def _descriptor(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blob_path(data: bytes) -> str:
    return f"blobs/{_digest(data).replace(':', '/')}"


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
