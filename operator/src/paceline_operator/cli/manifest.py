"""An `InferenceService` in a file, checked as far as its meaning here goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from paceline_operator.api.choice import Mode
from paceline_operator.api.v1alpha1 import API_VERSION, KIND, InferenceServiceSpec
from paceline_operator.cli.admission import refusal, without_nulls, wrong_field
from paceline_operator.cli.errors import CliError
from paceline_operator.cli.object_name import check_namespace
from paceline_operator.domain import arguments, calendar, model_source, overlay
from paceline_operator.domain.errors import SpecError
from paceline_operator.yaml_text import YamlError, documents

ANYWHERE = "/"
"""Which directories of a node may hold models, the installation says."""
_QUOTABLE = ("a number", "a date")
_WORDS = ("enum", "literal_error", "string_type")


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
        CliError: The file cannot be read, or what it holds is no such object, would be refused by
            an API server, or not be served by the operator.
    """
    found = [each for each in _documents(path) if _is_service(each)]
    if len(found) != 1:
        raise CliError(
            f"{path}: {len(found) or 'no'} objects of kind {KIND} ({API_VERSION}); give it one"
        )
    document = found[0]
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or name is None or name == "":
        raise CliError(f"{path}: metadata.name: it has no name; give it one")
    if not isinstance(name, str):
        raise CliError(
            f"{path}: metadata.name: it is read as {_kind(name)}, not as text; write it in quotes"
        )
    return Manifest(
        path=path,
        name=name,
        namespace=_namespace(metadata.get("namespace"), path),
        spec=_checked(document, str(path)),
    )


def read_spec(given: Any, where: str) -> InferenceServiceSpec:
    """The spec of a live object: an API server has checked it, by a definition that may be newer.

    Args:
        given: As it was read.
        where: From, for messages.

    Raises:
        CliError: It does not fit the models.
    """
    try:
        return InferenceServiceSpec.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
        place = f"spec{place}"
        raise CliError(f"{where}: {place}: {first['msg']}{_yaml_hint(first)}") from error


def check_playable(spec: InferenceServiceSpec, where: str) -> None:
    """Refuses a fleet that serves nobody.

    Raises:
        CliError: It is one.
    """
    if spec.scaling.effective_mode is not Mode.AUTO and spec.replicas == 0:
        raise CliError(
            f"{where}: spec.replicas: with 0 replicas nothing is served, so there is nothing to "
            "play"
        )


def _yaml_hint(error: ErrorDetails) -> str:
    """What to do about text that YAML 1.1 reads as something else, as `kubectl` does."""
    if error["type"] == "string_type" and _kind(error["input"]) in _QUOTABLE:
        return f"; it is read as {_kind(error['input'])}, so write it in quotes"
    if not isinstance(error["input"], bool) or error["type"] not in _WORDS:
        return ""
    return (
        f", not {str(error['input']).lower()}: an On, Off, Yes or No without quotes is read as "
        'true or false; write it in quotes, as in "Off"'
    )


def _kind(value: Any) -> str:
    """What YAML took a value for."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "a date" if isinstance(value, date) else f"a {type(value).__name__}"


def _namespace(given: Any, path: Path) -> str | None:
    if given is None or given == "":  # to a server, both are left out
        return None
    try:
        check_namespace(given)
    except CliError as error:
        raise CliError(f"{path}: metadata.namespace: {error}") from error
    return str(given)


def _checked(document: Mapping[str, Any], where: str) -> InferenceServiceSpec:
    """The spec, if an API server would take it and the operator could serve it."""
    # A server ignores the status of what is applied, so an exported object will do.
    given = {**document, "spec": document.get("spec") or {}}
    given.pop("status", None)
    given = without_nulls(given)
    misnamed = wrong_field(given)
    if misnamed is not None:
        raise CliError(f"{where}: {misnamed}")
    spec = read_spec(given["spec"], where)
    wrong = refusal(given) or _stalls(spec)
    if wrong is not None:
        raise CliError(f"{where}: {wrong}")
    check_playable(spec, where)
    return spec


def _stalls(spec: InferenceServiceSpec) -> str | None:
    """Why the operator would not serve it; what only its installation knows is left out."""
    try:
        arguments.check(spec)
        calendar.check(spec)
        model_source.locate(spec.model.uri, (ANYWHERE,))
        overlay.check_depth(spec.template or {})
        overlay.lay_over({"metadata": {}, "spec": {}}, spec.template or {})
    except SpecError as error:
        said = str(error)
        return said if said.startswith("spec.") else f"spec.{said}"
    return None


def _documents(path: Path) -> list[Any]:
    try:
        found = documents(path.read_text(encoding="utf-8"))
        return [each for document in found for each in _objects(document)]
    except OSError as error:
        raise CliError(f"{path}: {error.strerror or error}; name a file to read") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: is no text; name a manifest") from error
    except YamlError as error:
        raise CliError(f"{path}: is not YAML: {error}") from error


def _objects(document: Any) -> list[Any]:
    """The document, or the items of a list, as `kubectl get -o yaml` prints several objects."""
    is_list = isinstance(document, dict) and document.get("kind") == "List"
    items = document.get("items") if is_list and document.get("apiVersion") == "v1" else None
    return items if isinstance(items, list) else [document]


def _is_service(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and document.get("kind") == KIND
        and document.get("apiVersion") == API_VERSION
    )
