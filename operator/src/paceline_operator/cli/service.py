"""Reads one `InferenceService` with the user's own kubeconfig."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kubernetes_asyncio.client import Configuration
from pydantic import ValidationError

from paceline_operator.api import v1alpha1
from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.cli.errors import AwayError, CliError, LoginError
from paceline_operator.cli.object_name import check_name, check_namespace
from paceline_operator.kube.client import KubeClient
from paceline_operator.kube.errors import (
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from paceline_operator.kube.kubeconfig import ConfigError, read_kubeconfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One object as the plug-in shows it."""

    name: str
    namespace: str
    generation: int
    spec: dict[str, Any]
    status: InferenceServiceStatus


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads objects of one namespace over an open connection."""

    client: KubeClient
    namespace: str

    async def read(self, name: str) -> Service:
        """The object now.

        Raises:
            LoginError: The server does not know this user, or not any more.
            AwayError: The server is busy, or cannot be reached.
            CliError: It is not there, may not be read, or is not understood; or it is no name.
        """
        check_name(name)
        group = f"/apis/{v1alpha1.API_VERSION}/namespaces/{self.namespace}"
        try:
            found = await self.client.get(f"{group}/{v1alpha1.PLURAL}/{name}")
        except NotFoundError as error:
            raise CliError(_missing(name, self.namespace, error.said)) from error
        except UnauthorizedError as error:
            raise LoginError(f"your login was refused: log in again{_told(error)}") from error
        except ForbiddenError as error:
            raise CliError(
                f"no access: this user may not read {v1alpha1.PLURAL}.{v1alpha1.GROUP} "
                f"in namespace {self.namespace!r}{_told(error)}"
            ) from error
        except UnavailableError as error:
            raise AwayError(f"the API server cannot be asked: {error}") from error
        except KubeError as error:
            raise CliError(f"the API server cannot be asked: {error}") from error
        return _service(found)


@asynccontextmanager
async def connected(namespace: str | None, context: str | None) -> AsyncIterator[Reader]:
    """A reader by `KUBECONFIG` or `~/.kube/config`.

    Args:
        namespace: None for that of the context.
        context: None for the current one.

    Raises:
        CliError: There is no usable kubeconfig, or no such namespace can be.
    """
    configuration = Configuration()
    try:
        own = await read_kubeconfig(configuration, context)
        async with KubeClient(configuration) as client:
            chosen = namespace or own or "default"
            check_namespace(chosen)
            yield Reader(client, chosen)
    except ConfigError as error:
        raise CliError(f"no usable kubeconfig: {error}; set KUBECONFIG") from error


def _service(found: dict[str, Any]) -> Service:
    metadata = found.get("metadata")
    if not isinstance(metadata, dict) or not {"name", "namespace"} <= metadata.keys():
        raise CliError(
            f"the answer is no {v1alpha1.KIND}: look where the kubeconfig's server leads"
        )
    try:
        status = InferenceServiceStatus.model_validate(found.get("status") or {})
    except ValidationError as error:
        raise CliError(
            f"the status of {metadata['name']!r} is not understood: operator and plug-in may be "
            f"of different versions ({error.error_count()} differences)"
        ) from error
    return Service(
        name=metadata["name"],
        namespace=metadata["namespace"],
        generation=int(metadata.get("generation", 0)),
        spec=found.get("spec") or {},
        status=status,
    )


def _told(error: KubeError) -> str:
    said = " ".join(error.said.split())
    return f" (the API server says: {said})" if said else ""


def _missing(name: str, namespace: str, said: str) -> str:
    if f'"{name}"' in said:  # of a kind that it does not know, a server names no object
        return (
            f"InferenceService {name!r} not found in namespace {namespace!r}; name another with -n"
        )
    return (
        "this cluster knows no InferenceService: install Paceline first "
        "(helm install paceline charts/paceline)"
    )
