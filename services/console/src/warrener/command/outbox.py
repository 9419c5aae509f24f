"""The outbox of requesters: `warrener outbox create`, `relay` and `show`."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from warrener import options
from warrener.context import connect_client, resolve_endpoints, run
from warrener.errors import CommandError, UsageError
from warrener.options import Broker, Json, flag, option
from warrener.render.screen import err, out, print_json
from warrener_runtime.secrets import mask

if TYPE_CHECKING:
    from warrener.outbox import OutboxTable

_VARIABLE = "WARRENER_OUTBOX_URL"
Database = Annotated[str | None, options.shared(f"Database of the requesters (default: {_VARIABLE}).", "URL")]


def create(*, database: Database = None, as_json: Json = False) -> None:
    """Make the table `warrener_outbox`, unless it is there. Migrations of your own may hold it instead:
    `warrener_client.outbox.TABLES`.

    $ warrener outbox create --database postgresql://shop@db/shop
    """
    url = _url(database)

    async def make() -> None:
        async with _opened(url) as table:
            await table.create()

    run(make())
    if as_json:
        print_json({"created": "warrener_outbox"})
    else:
        err().print(f"[good]✓[/] {mask(url)} has the table warrener_outbox")


def relay(
    *,
    database: Database = None,
    broker: Broker = None,
    interval: float = option("Seconds between two looks while nothing waits.", default=0.5, min=0.01),
    once: bool = flag("--once", "End when the table is empty."),
    as_json: Json = False,
) -> None:
    """Publish the requests of committed transactions until SIGTERM or Ctrl-C, which end it after its batch.

    Any number may run on PostgreSQL. A request whose relay dies is published again under the same id.

    $ warrener outbox relay --database postgresql://shop@db/shop
    $ warrener outbox relay --once
    """
    count = run(_relay(_url(database), broker, interval, once=once))
    if as_json:
        print_json({"published": count})
    else:
        err().print(f"[good]✓[/] {count} requests were published")


def show(*, database: Database = None, as_json: Json = False) -> None:
    """Show how many requests wait, since when, and how many rows are no requests.

    $ warrener outbox show --json | jq .waiting
    """

    async def count() -> tuple[int, str | None, int]:
        async with _opened(_url(database)) as table:
            return await table.counts()

    rows, oldest, refused = run(count())
    if as_json:
        print_json({"waiting": rows - refused, "oldest": oldest, "refused": refused})
        return
    since = f", the oldest since {oldest}" if oldest else ""
    out().print(f"{rows - refused} requests wait{since}; {refused} rows are no requests", soft_wrap=True)


async def _relay(url: str, broker: str | None, interval: float, *, once: bool) -> int:
    from warrener.outbox import BATCH_SIZE, relay_batch
    from warrener_runtime.clock import SystemClock
    from warrener_runtime.lifecycle import Loop

    done, count = asyncio.Event(), 0
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    async with _opened(url) as table, connect_client(resolve_endpoints(broker)) as client:

        async def relay_all() -> None:
            nonlocal count
            while not done.is_set():
                published, refused = await relay_batch(table, client)
                count += len(published)
                if len(published) + len(refused) < BATCH_SIZE:
                    break
            if once:
                done.set()

        await table.counts()  # a missing table is an error of this call, not of the loop
        relaying = Loop("outbox", relay_all, every=interval, clock=SystemClock())
        await relaying.start()
        await done.wait()
        await relaying.drain()
        await relaying.stop()
    return count


def _url(given: str | None) -> str:
    url = given or os.environ.get(_VARIABLE)
    if not url:
        raise UsageError(
            "expected the database of the requesters, got none", do=f"give --database URL or set {_VARIABLE}"
        )
    return url


@asynccontextmanager
async def _opened(url: str) -> "AsyncGenerator[OutboxTable]":
    """The table at a URL. Raises CommandError for the errors of its database."""
    import sqlite3

    from warrener.outbox import PostgresOutbox, SqliteOutbox
    from warrener_store.databases.address import SqliteAddress, StoreUrlError, parse_address
    from warrener_store.databases.failures import postgres_errors

    try:
        address = parse_address(url)
    except StoreUrlError as error:
        raise UsageError(f"expected a database's URL, got {mask(url)}: {error}") from None
    table = SqliteOutbox(address) if isinstance(address, SqliteAddress) else PostgresOutbox(address)
    failures: tuple[type[Exception], ...] = (sqlite3.Error, *postgres_errors(), OSError)
    try:
        yield table
    except failures as error:
        do = "check its URL; `warrener outbox create` makes the table"
        raise CommandError(f"expected {mask(url)} to answer, got: {error}", do=do) from error
    finally:
        await table.close()
