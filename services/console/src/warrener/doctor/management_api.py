"""The broker's management HTTP API, queried for the bindings, which AMQP cannot list."""

import asyncio
import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from time import monotonic
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from warrener.context import parse_broker_urls
from warrener.errors import os_error_text
from warrener_contracts.topology import Binding

_PORT, _SECURE_PORT = 15672, 15671
_TIMEOUT = 5.0  # seconds; most brokers have no management API
_CHUNK = 65536  # bytes

T = TypeVar("T")

ENABLE_HINT = (
    "to compare them: rabbitmq-plugins enable rabbitmq_management, or name its URL with --management "
    "or WARRENER_MANAGEMENT_URL"
)
_CORRECT_HINT = "correct --management or WARRENER_MANAGEMENT_URL: it names the management API of this broker"

QueueBindings = Mapping[str, frozenset[Binding]]
"""Bindings by queue; each queue has at least its own, of the default exchange ("")."""


class BindingsUnavailable(Exception):
    """The bindings are unknown: why, and what to do."""

    def __init__(self, why: str, do: str = ENABLE_HINT) -> None:
        super().__init__(why)
        self.why, self.do = why, do


@dataclass(frozen=True, slots=True)
class ManagementApi:
    """URL, user and virtual host of the API; `others` are URLs of other nodes. `broker_url` has the TLS
    parameters."""

    url: str
    user: str
    password: str = field(repr=False)
    virtual_host: str
    broker_url: str = field(repr=False)
    others: tuple[str, ...] = ()


def resolve_management_api(broker_url: str, given: str | None = None) -> ManagementApi:
    """The API at the given URL, else beside the broker, used as the user of that URL. Pure."""
    nodes = parse_broker_urls(broker_url)
    broker, others = nodes[0], tuple[str, ...]()
    user, password = "guest", "guest"
    if broker.credentials.user is not None:
        user, password = broker.credentials.user, broker.credentials.password
    if given is None:
        scheme, port = ("https", _SECURE_PORT) if broker.secure else ("http", _PORT)
        hosts = [f"[{node.host}]" if ":" in node.host else node.host for node in nodes]
        url, *more = dict.fromkeys(f"{scheme}://{host}:{port}" for host in hosts)
        others = tuple(more)
    else:
        parts = urlsplit(given)
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return ManagementApi(url, user, password, broker.params.virtual_host, broker_url, others)


async def bindings(management: ManagementApi) -> QueueBindings:
    """Fetch the bindings of the virtual host. Raises BindingsUnavailable."""
    virtual_host = quote(management.virtual_host, safe="")
    return await query(management, f"bindings/{virtual_host}", "bindings", parse_bindings)


async def query(management: ManagementApi, path: str, what: str, parse: Callable[[bytes], T]) -> T:
    """Fetch a list from the first node that answers, and parse it. Raises BindingsUnavailable."""
    if management.others:
        first, *others = management.others
        with suppress(BindingsUnavailable):
            return await query(replace(management, others=()), path, what, parse)
        return await query(replace(management, url=first, others=tuple(others)), path, what, parse)
    try:
        return parse(await asyncio.to_thread(_fetch, management, path))
    except urllib.error.HTTPError as answer:
        with answer:
            raise explain_refusal(management, answer.code, answer.read(_CHUNK)) from None
    except (OSError, HTTPException) as error:  # URLError is an OSError
        raise BindingsUnavailable(f"nothing answers at {management.url} ({_error_text(error)})") from None
    except (ValueError, KeyError, TypeError):
        got = f"expected a list of {what} from {management.url}, got something else"
        raise BindingsUnavailable(got, _CORRECT_HINT) from None


def parse_bindings(body: bytes) -> QueueBindings:
    """Parse the answer. Raises ValueError, KeyError, TypeError if it is no list of bindings. Pure."""
    found: dict[str, set[Binding]] = {}
    for each in cast("list[dict[str, Any]]", json.loads(body)):
        if each["destination_type"] == "queue":
            bound = Binding(str(each["source"]), str(each["routing_key"]))
            found.setdefault(str(each["destination"]), set()).add(bound)
    return {queue: frozenset(bound) for queue, bound in found.items()}


def explain_refusal(management: ManagementApi, code: int, body: bytes) -> BindingsUnavailable:
    """Explain an answer other than 200. Pure."""
    url, user, virtual_host = management.url, management.user, management.virtual_host
    try:
        reason = f": {json.loads(body)['reason']}"
    except (ValueError, KeyError, TypeError):
        reason = ""
    if code in {401, 403}:
        return BindingsUnavailable(
            f"{url} does not let user {user!r} see virtual host {virtual_host!r} ({code}{reason})",
            f"rabbitmqctl set_user_tags {user} management; or name another user: "
            "--management http://USER:PASSWORD@HOST:15672",
        )
    if code == 404:
        none = f"{url} knows no virtual host {virtual_host!r}, or is no management API (404)"
        return BindingsUnavailable(none, _CORRECT_HINT)
    return BindingsUnavailable(
        f"expected bindings from {url}, got {code}{reason}",
        "look into the broker's log, or correct --management or WARRENER_MANAGEMENT_URL",
    )


def _error_text(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {_TIMEOUT:g} s"
    if isinstance(cause, OSError):
        return os_error_text(cause)
    return "it does not speak HTTP" if isinstance(cause, HTTPException) else str(cause)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which could carry the password to another host."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        """Return None: the redirect is the answer."""


def _fetch(management: ManagementApi, path: str) -> bytes:
    token = b64encode(f"{management.user}:{management.password}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - http or https, as the settings say
        f"{management.url}/api/{path}",
        headers={"Authorization": f"Basic {token}", "Accept": "application/json"},
    )
    # AMQP reaches the broker without a proxy, so its management API is reached without one too.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirects()]
    if (context := parse_broker_urls(management.broker_url)[0].tls()) is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    until, body = monotonic() + _TIMEOUT, bytearray()
    with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT) as answer:
        while chunk := answer.read1(_CHUNK):
            body += chunk
            if monotonic() > until:  # of all reads together
                raise TimeoutError
    return bytes(body)
