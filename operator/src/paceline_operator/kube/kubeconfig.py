"""A user's kubeconfig: whatever makes it unusable is one error with one line."""

from __future__ import annotations

import os
import re

import yaml
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client import Configuration
from yarl import URL

from paceline_operator.kube.environment_proxy import environment_proxy
from paceline_operator.yaml_text import MISSHAPEN

DEFAULT = "~/.kube/config"
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_SERVER_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+")
_MISSHAPEN = (AssertionError, *MISSHAPEN)
"""The library looks into what it read before it knows its shape, and fails as it may."""


class ConfigError(Exception):
    """No usable cluster configuration; the text says where it was looked for."""


async def read_kubeconfig(configuration: Configuration, context: str | None) -> str | None:
    """Takes address and credentials from `KUBECONFIG`, else from `~/.kube/config`.

    A proxy that the environment names is used where the file names none.

    Args:
        configuration: What they are written to.
        context: None for the current one.

    Returns:
        The namespace of the context, None where it names none.

    Raises:
        ConfigError: There is no such file, or it is no kubeconfig, or its login failed.
    """
    # The library reads the variable when it is imported; here it counts now.
    file = os.environ.get("KUBECONFIG") or DEFAULT
    try:
        await kube_config.load_kube_config(file, context, configuration)
        contexts, active = kube_config.list_kube_config_contexts(file)
    except (kube_config.ConfigException, OSError) as error:
        raise ConfigError(f"{file}: {_one_line(error)}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not YAML: {_one_line(error)}") from error
    except _MISSHAPEN as error:
        raise ConfigError(
            f"{file} is empty, or is no kubeconfig: {_one_line(error) or type(error).__name__}"
        ) from error
    _check_way(file, configuration)
    configuration.proxy = configuration.proxy or _proxy_around(configuration.host or "")
    chosen = next((each for each in contexts if each["name"] == context), active)
    return ((chosen or {}).get("context") or {}).get("namespace") or None


def _check_way(file: str, configuration: Configuration) -> None:
    """Whether aiohttp can take the way that the file names; it fails late, or goes another."""
    proxy, name = configuration.proxy, configuration.tls_server_name
    if proxy and not _is_http(proxy):
        raise ConfigError(
            f"{file}: proxy-url: {proxy!r} is no http proxy, such as http://host:3128"
        )
    if name and not (isinstance(name, str) and _SERVER_NAME.fullmatch(name)):
        raise ConfigError(f"{file}: tls-server-name: {name!r} is no name of a server")


def _proxy_around(server: str) -> str | None:
    proxy = environment_proxy(server)
    if proxy and not _is_http(proxy):
        raise ConfigError(
            f"HTTPS_PROXY: {proxy!r} is no http proxy, such as http://host:3128; where the server "
            "needs none, name it in NO_PROXY"
        )
    return proxy


def _is_http(address: object) -> bool:
    try:
        found = URL(address) if isinstance(address, str) else URL()
    except ValueError:
        return False
    return found.scheme in ("http", "https") and bool(found.host)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
