"""Context of a command: the broker and the store it uses, and how its body runs against them.

Options come first, then a running `warrener up` of this folder, then the settings.
"""

import gc
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from warrener.errors import BrokerUnreachable, UsageError, credentials_error, os_error_text
from warrener_runtime.running_up import Endpoints, announce_use, find_running_up
from warrener_runtime.secrets import mask

if TYPE_CHECKING:  # a command imports the client or the store if it connects
    from warrener.settings import CommandSettings
    from warrener_amqp.address import Address
    from warrener_client import Client
    from warrener_runtime.bus import DeclareMode
    from warrener_store import Store

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0  # seconds
SOURCE = "warrener.command"
"""CloudEvents source of the events that commands publish, and name of their connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedEndpoints(Endpoints):
    """URLs of broker, store and ledger. `from_up`: `warrener up` of this folder announced them."""

    from_up: bool
    management_url: str | None = None

    def environment(self) -> dict[str, str]:
        """The same as environment variables of a service."""
        return {
            "WARRENER_BROKER_URL": self.broker_url,
            "WARRENER_STORE_URL": self.store_url,
            "WARRENER_LEDGER_URL": self.ledger_url,
            "WARRENER_NAMESPACE": self.namespace,
        }


def resolve_endpoints(
    broker: str | None = None, store: str | None = None, management: str | None = None
) -> ResolvedEndpoints:
    """Find the endpoints from the options, a running `up` of this folder and the settings."""
    found = find_running_up()
    picked = pick_endpoints(broker, store, found, command_settings(), _parse_management_option(management))
    if picked.from_up:
        announce_use(picked.broker_url)
    return picked


def copyable_broker_url(url: str) -> str:
    """The URL with its virtual host written out: to other AMQP clients a lone slash is one without a name."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path="/%2F")) if parts.path in {"", "/"} else url


def pick_endpoints(
    broker: str | None,
    store: str | None,
    up: Endpoints | None,
    settings: "CommandSettings",
    management: str | None = None,
) -> ResolvedEndpoints:
    """Choose each endpoint from the first source that names it. Pure."""
    broker_url = broker or (up.broker_url if up else settings.broker_url)
    # management_url of the settings is not that of the private broker of an `up`.
    of_settings = broker is not None or broker_url == settings.broker_url
    return ResolvedEndpoints(
        broker_url,
        store or (up.store_url if up else settings.store_url),
        up.ledger_url if up else settings.ledger_url,
        from_up=up is not None and not broker and not store,
        management_url=management or (settings.management_url if of_settings else None),
        namespace=up.namespace if up is not None and broker is None else settings.namespace,
    )


def _parse_management_option(management: str | None) -> str | None:
    from warrener.settings import validate_management_url  # noqa: PLC0415 - not to show help

    try:
        return validate_management_url(management) if management else None
    except ValueError as error:
        raise UsageError(f"--management: expected {error}, got {mask(management or '')!r}") from error


def command_settings() -> "CommandSettings":
    from warrener.settings import CommandSettings  # noqa: PLC0415 - pydantic is large, and help needs none of it
    from warrener_runtime.settings import SettingsError, load  # noqa: PLC0415

    try:
        return load(CommandSettings)
    except SettingsError as error:
        raise UsageError(str(error)) from error


def run(body: Coroutine[Any, Any, T]) -> T:
    import asyncio  # noqa: PLC0415 - not to show help

    from warrener_runtime import logs  # noqa: PLC0415 - as above

    level = os.environ.get("WARRENER_LOG_LEVEL", "error")
    logs.configure_at_first_record("warrener", level=level, format="console")
    if not gc.isenabled():  # `main` turned it off; what is imported by now is never collected
        gc.freeze()
        gc.enable()
    return asyncio.run(body)


def query_store(store: str | None, query: Callable[["Store"], Awaitable[T]]) -> T:
    """Run one query against the store of the option or the context, and return its result."""

    async def body() -> T:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            return await query(open_store)

    return run(body())


@asynccontextmanager
async def connect_store(endpoints: ResolvedEndpoints) -> AsyncGenerator["Store"]:
    """Open the store for queries."""
    from warrener_store.opening import open_store_on_demand  # noqa: PLC0415 - only those who connect need it

    store = open_store_on_demand(endpoints.store_url)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connect_client(
    endpoints: ResolvedEndpoints, *, declare: "DeclareMode | None" = None
) -> AsyncGenerator["Client"]:
    """Open a client of the broker; `declare` in place of the setting. Raises CommandError if the broker does
    not answer or refuses."""
    import asyncio  # noqa: PLC0415 - as above

    from warrener_client import Client  # noqa: PLC0415 - only those who connect need it
    from warrener_runtime.bus import BusCredentialsRefused  # noqa: PLC0415 - as above

    url = endpoints.broker_url
    parse_broker_urls(url)
    settings = command_settings()
    client = Client(
        url,
        namespace=endpoints.namespace,
        source=SOURCE,
        connect_timeout=None,
        declare=declare or settings.declare,
        broker_user=settings.sender_at(url),
    )
    try:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await check_reachable(url)  # the client would wait until a broker listens
                await client.start()
        except TimeoutError:
            cause = f"no answer within {CONNECT_TIMEOUT:g} s; `warrener doctor` says more"
            raise BrokerUnreachable(url, cause) from None
        except OSError as error:
            raise BrokerUnreachable(url, os_error_text(error)) from error
        except BusCredentialsRefused as error:
            raise credentials_error(error) from error
        yield client
    finally:
        await client.close()


def parse_broker_urls(url: str) -> "list[Address]":
    """Parse the broker's URL into the address of each host. Raises CommandError."""
    from warrener_amqp.address import parse_addresses  # noqa: PLC0415 - only those who connect need it

    try:
        return parse_addresses(url)
    except ValueError as error:
        raise UsageError(
            f"expected a broker's URL like amqp://host:5672/vhost, got {mask(url)} ({error})",
            do="correct --broker or WARRENER_BROKER_URL",
        ) from error


async def check_reachable(url: str) -> None:
    """Open and close a socket to the broker. Raises OSError if nothing listens at any of its hosts."""
    import asyncio  # noqa: PLC0415 - as above

    refusal: OSError | None = None
    for where in parse_broker_urls(url):
        try:
            _, writer = await asyncio.open_connection(where.host, where.port)
        except OSError as error:
            refusal = error
        else:
            writer.close()
            return
    assert refusal is not None
    raise refusal
