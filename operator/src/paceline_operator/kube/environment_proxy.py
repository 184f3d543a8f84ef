"""The proxy that the environment names, as kubectl follows it: `HTTPS_PROXY`, `NO_PROXY`.

What `NO_PROXY` leaves out is told by the rules of Go's `golang.org/x/net/http/httpproxy`.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.request import getproxies_environment

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
    host, proxy = (url.host or "").lower(), proxies.get(url.scheme)
    if not proxy or _is_local(host) or _is_excluded(host, url.port, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_local(host: str) -> bool:
    address = _address(host)
    return host == _LOCAL if address is None else address.is_loopback


def _is_excluded(host: str, port: int | None, excluded: str) -> bool:
    entries = (entry.strip().lower() for entry in excluded.split(","))
    return any(_names(entry, host, port) for entry in entries if entry)


def _names(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry is about a server: a name, an address or a network, with a port or none."""
    if entry == "*":
        return True
    address, network = _address(host), _network(entry)
    if network is not None:
        return address is not None and address in network
    place, only = _split(entry)
    if not place or only not in ("", str(port)):
        return False
    other = _address(place.removeprefix("[").removesuffix("]"))
    return _is_of(host, place) if other is None else address == other


def _is_of(host: str, domain: str) -> bool:
    """Whether a name is a domain's, or the domain itself where no dot is ahead of it."""
    suffix = domain.removeprefix("*") if domain.startswith("*.") else domain
    return host.endswith(suffix) if suffix.startswith(".") else f".{host}".endswith(f".{suffix}")


def _split(entry: str) -> tuple[str, str]:
    """The place an entry names, and its port, empty where it names each."""
    place, colon, port = entry.rpartition(":")
    is_port = colon and (":" not in place or place.endswith("]"))
    return (place, port) if is_port else (entry, "")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> IPv4Network | IPv6Network | None:
    """The network of an address with a prefix length; a single address is none."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
