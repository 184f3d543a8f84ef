"""The proxy that the environment names, as kubectl follows it: `HTTPS_PROXY`, `NO_PROXY`."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.request import getproxies_environment, proxy_bypass

from yarl import URL

_LOCAL = "localhost"


def environment_proxy(server: str) -> str | None:
    """The way to a server where its kubeconfig names none.

    Args:
        server: Address of the API server.

    Returns:
        Address of a proxy; None where the server is reached directly, as each on this machine is.
    """
    url, proxies = URL(server), getproxies_environment()
    host, proxy = url.host or "", proxies.get(url.scheme)
    excluded = proxies.get("no", "")
    if not proxy or _is_local(host) or _is_within(host, excluded):
        return None
    if proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_local(host: str) -> bool:
    if host == _LOCAL:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_within(host: str, excluded: str) -> bool:
    """Whether an address lies in one of the networks; the library knows names alone."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in map(_network, excluded.split(",")) if network)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        return None
