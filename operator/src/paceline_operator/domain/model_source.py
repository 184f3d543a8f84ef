"""Where a model's weights come from, and how they get into an engine pod."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from paceline_operator.domain.errors import UnsupportedModelError

MOUNT = PurePosixPath("/var/lib/paceline/model")
VOLUME = "model"
FILE_ENDING = ".gguf"
"""A model is one GGUF file or a directory; names of directories hold dots too (`Qwen2.5-7B`)."""
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_CLAIM = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MAX_CLAIM = 253


@dataclass(frozen=True, slots=True)
class Weights:
    """Path of the model inside the pod, with the volume and mount that bring it there."""

    path: str | None = None
    volumes: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    mounts: tuple[dict[str, Any], ...] = field(default_factory=tuple)


def locate(uri: str | None, allowed_prefixes: tuple[str, ...]) -> Weights:
    """Resolve `model.uri`; no URI means no weights, which only a simulated device accepts.

    Raises:
        UnsupportedModelError: It is no URI of a file or directory, the scheme is unknown, or the
            location is not allowed here.
    """
    if uri is None:
        return Weights()
    parts, path = _parsed(uri)
    if parts.scheme == "file":
        return _host_path(path, allowed_prefixes)
    if parts.scheme == "pvc":
        return _claim(parts.netloc, path)
    raise UnsupportedModelError(
        f"model.uri {uri}: scheme {parts.scheme}:// is not supported yet; use file:// or pvc://"
    )


def _parsed(uri: str) -> tuple[SplitResult, str]:
    """The parts of a URI, and its path as the file system has it."""
    if "#" in uri or "?" in uri:
        raise UnsupportedModelError(
            f"model.uri {uri!r}: '#' and '?' are not part of a path; write %23 and %3F for them"
        )
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
    except ValueError as error:
        raise UnsupportedModelError(f"model.uri {uri!r} is not a URI: {error}") from error
    if not (uri.isprintable() and path.isprintable()):
        raise UnsupportedModelError(f"model.uri {uri!r} must not contain control characters")
    return parts, path


def _host_path(text: str, allowed_prefixes: tuple[str, ...]) -> Weights:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts:
        raise UnsupportedModelError(f"model.uri: {text} must be an absolute path without '..'")
    if not allowed_prefixes:
        raise UnsupportedModelError(
            "model.uri: file:// models are off in this installation; "
            "set model.hostPath.enabled in the chart or use pvc://"
        )
    if not any(path.is_relative_to(prefix) for prefix in allowed_prefixes):
        raise UnsupportedModelError(
            f"model.uri: {path} lies outside the directories allowed here "
            f"({', '.join(allowed_prefixes)}); see model.hostPath.prefixes in the chart"
        )
    target = str(MOUNT / path.name)
    # Without a type, a path that is not there is made on the node: an empty directory of root's.
    kind = "File" if path.name.lower().endswith(FILE_ENDING) else "Directory"
    return Weights(
        target,
        ({"name": VOLUME, "hostPath": {"path": str(path), "type": kind}},),
        ({"name": VOLUME, "mountPath": target, "readOnly": True},),
    )


def _claim(claim: str, inner: str) -> Weights:
    path = PurePosixPath(inner.lstrip("/"))
    if not claim or ".." in path.parts:
        raise UnsupportedModelError("model.uri: write pvc://claim/path/to/model, without '..'")
    if len(claim) > _MAX_CLAIM or not _CLAIM.fullmatch(claim):
        raise UnsupportedModelError(
            f"model.uri: {claim!r} is no name of a PersistentVolumeClaim: lower-case letters, "
            "digits, '-' and '.' only"
        )
    return Weights(
        str(MOUNT / path),
        ({"name": VOLUME, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}},),
        ({"name": VOLUME, "mountPath": str(MOUNT), "readOnly": True},),
    )
