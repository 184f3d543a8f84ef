"""An `InferenceService` in a file, checked as far as its meaning here goes."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from paceline_operator.api.choice import Mode
from paceline_operator.api.v1alpha1 import API_VERSION, KIND, InferenceServiceSpec
from paceline_operator.cli.errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a file asks for.

    Attributes:
        path: The file.
        name: Of the object.
        namespace: As written, None where it is not.
        spec: The spec.
    """

    path: Path
    name: str
    namespace: str | None
    spec: InferenceServiceSpec


def read_manifest(path: Path) -> Manifest:
    """The one `InferenceService` of a file.

    Raises:
        CliError: The file cannot be read, or what it holds is no such object.
    """
    found = [each for each in _documents(path) if _is_service(each)]
    if len(found) != 1:
        raise CliError(
            f"{path}: {len(found) or 'no'} objects of kind {KIND} ({API_VERSION}); give it one"
        )
    document = found[0]
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise CliError(f"{path}: metadata.name: it has no name; give it one")
    namespace = metadata.get("namespace")
    return Manifest(
        path=path,
        name=name,
        namespace=namespace if isinstance(namespace, str) else None,
        spec=read_spec(document.get("spec") or {}, str(path)),
    )


def read_spec(given: Any, where: str, *, may_be_newer: bool = False) -> InferenceServiceSpec:
    """A spec, with what it says wrong named by its path.

    Args:
        given: As it was read.
        where: From, for messages.
        may_be_newer: Whether fields that are not known here are left out: of a live object an
            API server has checked them already.

    Raises:
        CliError: It does not fit the models, or contradicts itself.
    """
    try:
        spec = InferenceServiceSpec.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(("spec", *(str(part) for part in first["loc"])))
        raise CliError(f"{where}: {place}: {first['msg']}") from error
    unknown = None if may_be_newer else unknown_field(InferenceServiceSpec, given, "spec")
    if unknown is not None:
        raise CliError(f"{where}: {unknown}: there is no such field; correct or remove it")
    wrong = _contradiction(spec)
    if wrong is not None:
        raise CliError(f"{where}: {wrong}")
    return spec


def unknown_field(model: type[BaseModel], given: Mapping[str, Any], path: str) -> str | None:
    """Path of the first field that the model does not have."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, value in given.items():
        if key not in fields:
            return f"{path}.{key}"
        inner = _model_in(fields[key].annotation)
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for place, item in items:
            here = f"{path}.{key}" if place is None else f"{path}.{key}.{place}"
            if inner is not None and isinstance(item, dict):
                found = unknown_field(inner, item, here)
                if found is not None:
                    return found
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a field, also of an optional one or of a list's items."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType, tuple):
        for part in typing.get_args(annotation):
            found = _model_in(part)
            if found is not None:
                return found
    return None


def _documents(path: Path) -> list[Any]:
    try:
        return list(yaml.safe_load_all(path.read_text()))
    except OSError as error:
        raise CliError(f"{path}: {error.strerror or error}; name a file to read") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: is no text; name a manifest") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise CliError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error


def _is_service(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and document.get("kind") == KIND
        and document.get("apiVersion") == API_VERSION
    )


def _contradiction(spec: InferenceServiceSpec) -> str | None:
    """What the API server's own rules would refuse and a simulation would take."""
    batch, scaling = spec.engine.batch_tokens, spec.scaling
    most = scaling.max_replicas
    if batch.max <= spec.engine.max_num_seqs:
        return (
            f"spec.engine.batchTokens.max: {batch.max} must exceed maxNumSeqs "
            f"({spec.engine.max_num_seqs})"
        )
    for field, value in (("min", batch.min), ("initial", batch.initial)):
        if value is not None and value > batch.max:
            return f"spec.engine.batchTokens.{field}: {value} must not exceed max ({batch.max})"
    if most is None and scaling.mode is Mode.AUTO:
        return "spec.scaling.maxReplicas: mode Auto needs it, the most this fleet may cost"
    if most is not None and scaling.min_replicas > most:
        return f"spec.scaling.minReplicas: {scaling.min_replicas} must not exceed {most}"
    if scaling.effective_mode is not Mode.AUTO and spec.replicas == 0:
        return "spec.replicas: with 0 replicas nothing is served, so there is nothing to play"
    return None
