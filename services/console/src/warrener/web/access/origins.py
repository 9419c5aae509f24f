"""Recognises requests that pages of other sites have sent, addresses that stay within the console, and
networks. Pure."""

import re
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

_OWN_SITES = {"same-origin", "none"}
_MAX_PATH = 2000
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, as browsers write them in `Origin`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def is_from_elsewhere(headers: Mapping[str, str], own_origin: str) -> bool:
    """True if a page of another origin has sent the request.

    Browsers say so in `Sec-Fetch-Site`, in `Origin` or in `Referer`. Programs send none of them.
    """
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return True
    if (origin := headers.get("origin")) is not None:
        return origin.lower() != own_origin
    referer = headers.get("referer")
    return referer is not None and origin_of(referer) != own_origin


def is_loopback_host(host: str) -> bool:
    """True if a `Host` header names this machine. A page of another name whose address was changed to
    127.0.0.1 (DNS rebinding) sends its own name."""
    name = host.rpartition(":")[0] if re.fullmatch(r".+:\d{1,5}", host) else host
    name = name.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def safe_path(path: str | None) -> str:
    """A path of this console to go to, else `/`: never an address of another host.

    Browsers read `//host` and `/\\host` as other hosts, and leave out control characters.
    """
    if not path or len(path) > _MAX_PATH or _UNSAFE.search(path):
        return "/"
    return path if path.startswith("/") and not path.startswith("//") else "/"


def network_of(address: str) -> str:
    """An IPv4 address, or the /64 network of an IPv6 address: one host has all of it."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Address(int(found) >> 64 << 64))
    return str(found)
