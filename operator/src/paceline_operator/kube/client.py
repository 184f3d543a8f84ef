"""The REST client: one connection pool, credentials re-read, typed errors, guarded writes."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from paceline_operator.kube.errors import InvalidError, KubeError, UnavailableError, from_status
from paceline_operator.kube.kubeconfig import ConfigError, read_kubeconfig

APPLY = "application/apply-patch+yaml"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
TIMEOUT_S = 10.0

Object = dict[str, Any]


async def load_configuration(context: str | None = None) -> Configuration:
    """Service account of the pod, else the kubeconfig (`KUBECONFIG`, `~/.kube/config`).

    Raises:
        ConfigError: Neither is usable, or a watch could not use it.
    """
    configuration = Configuration()
    try:
        InClusterConfigLoader(SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME).load_and_set(
            configuration
        )
    except kube_config.ConfigException as in_cluster:
        try:
            await read_kubeconfig(configuration, context)
            _check_watchable(configuration)
        except ConfigError as outside:
            raise ConfigError(
                f"no cluster to talk to: {in_cluster} and {outside}; set KUBECONFIG"
            ) from outside
    return configuration


class KubeClient:
    """Requests to one API server.

    `guard` is called before every write and raises when this process may not write.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._session: aiohttp.ClientSession | None = None
        self.guard: Callable[[], None] = _allow

    async def __aenter__(self) -> Self:
        """Opens it.

        Raises:
            ConfigError: The certificates of the configuration cannot be used.
        """
        connector = aiohttp.TCPConnector(ssl=_trust(self._configuration), limit=64)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, proxy=self._configuration.proxy or None
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **query: str) -> Object:
        """Read one object or a list."""
        return await self._request("GET", path, query=query)

    async def write(
        self, method: str, path: str, body: Any, *, content_type: str = JSON, **query: str
    ) -> Object:
        """Write, if this process may.

        Raises:
            KubeError: One of the tree in `errors`.
        """
        self.guard()
        return await self._request(method, path, body=body, content_type=content_type, query=query)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Any = None,
        content_type: str = JSON,
    ) -> Object:
        if self._session is None:
            raise RuntimeError("the client is used outside its context")
        try:
            async with self._session.request(
                method,
                f"{self._configuration.host}{path}",
                params=query,
                data=None if body is None else json.dumps(body),
                headers=await self._headers(content_type),
                server_hostname=self._configuration.tls_server_name or None,
            ) as reply:
                # What stands before an API server answers in any encoding, or in one there is not.
                return _read(method, path, reply.status, await reply.text("utf-8", "replace"))
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            detail = str(error) or type(error).__name__
            raise UnavailableError(f"{method} {path}: {detail}") from error

    async def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Content-Type": content_type, "Accept": JSON}
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = token
        return headers


def _check_watchable(configuration: Configuration) -> None:
    # kopf's connections take no such name: its watches would fail without end.
    if configuration.tls_server_name:
        raise ConfigError(
            f"tls-server-name {configuration.tls_server_name!r} is not for the operator: name its "
            "server as the certificate does"
        )


def _allow() -> None:
    """Let every write through; replaced where there is a lease."""


def _trust(configuration: Configuration) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except OSError as error:
        raise ConfigError(
            f"the certificates for {configuration.host} cannot be used: {error}"
        ) from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _read(method: str, path: str, status: int, text: str) -> Object:
    try:
        answer = json.loads(text) if text else {}
    except ValueError as error:
        if status < 400:
            raise UnavailableError(f"{method} {path}: {status}, and no object of an API") from error
        answer = {"message": text[:200]}
    except RecursionError as error:
        raise InvalidError(
            f"{method} {path}: the answer is nested too deeply to be read"
        ) from error
    if status < 400 and isinstance(answer, dict):
        return answer
    said = str(answer.get("message") or "") if isinstance(answer, dict) else ""
    shown = " ".join(said.split())
    refusal: KubeError = from_status(status, f"{method} {path}: {status} {shown}".strip())
    refusal.said = said
    raise refusal
