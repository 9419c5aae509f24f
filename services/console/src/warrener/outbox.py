"""The relay of an outbox (`warrener_client.outbox`): publishes what was committed, deletes what is confirmed.

A relay that dies in between leaves its rows, and the next one publishes them again under the same ids. Any
number of relays may share a table of PostgreSQL; each takes other rows. There is no cursor, because ids are
not in the order of commits.
"""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from functools import partial
from typing import NamedTuple, TypeVar

import asyncpg

from warrener_client import Client
from warrener_client.outbox import RELAYS, TABLES
from warrener_contracts.codec import DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import JobRequested
from warrener_contracts.messages import EVENT_TYPE
from warrener_contracts.postgres_address import PostgresAddress
from warrener_contracts.postgres_limits import session_settings
from warrener_contracts.postgres_sessions import open_session
from warrener_contracts.reader import Registry
from warrener_runtime.logs import get_logger
from warrener_store.databases.address import SqliteAddress

T = TypeVar("T")

_log = get_logger("outbox")
_REQUESTS = Registry((JobRequested,))
BATCH_SIZE = 500
_BUSY_TIMEOUT = 30.0  # seconds that SQLite waits for another writer
_SETTINGS = session_settings(lock=2, statement=6, idle_transaction=60)

_KEYS = """
SELECT DISTINCT ordering_key FROM (
  SELECT ordering_key FROM warrener_outbox WHERE refusal IS NULL ORDER BY id LIMIT $1
) AS first WHERE ordering_key <> ''
"""
# A key belongs to one relay until its transaction ends, so that its rows are published in their order.
_LOCKED = "SELECT key FROM unnest($2::text[]) AS key WHERE pg_try_advisory_xact_lock($1, hashtext(key))"
_ROWS = """
SELECT id, request FROM warrener_outbox
WHERE refusal IS NULL AND (ordering_key = '' OR ordering_key = ANY($1))
ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
"""
_COUNTS = "SELECT count(*), min(written_at), count(refusal) FROM warrener_outbox"


class TakenRow(NamedTuple):
    """A committed request: the number of its row, and the event."""

    number: int
    request: str


class RelayedRows(NamedTuple):
    """The end of a batch: rows whose requests are confirmed, and rows that are none, with the reasons."""

    published: Sequence[int]
    refused: Sequence[tuple[str, int]]


class OutboxTable(ABC):
    """The table in one database."""

    @abstractmethod
    async def create(self) -> None:
        """Make the table, unless it is there."""

    @abstractmethod
    def take(self, limit: int) -> AbstractAsyncContextManager["Taken"]:
        """Take up to `limit` rows that no other relay holds, those of one key in their order."""

    @abstractmethod
    async def counts(self) -> tuple[int, str | None, int]:
        """The number of rows, when the oldest was written, and how many were refused."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""


class Taken:
    """Rows that a relay holds. `end` is carried out when `OutboxTable.take` ends."""

    def __init__(self, rows: Sequence[TakenRow]) -> None:
        self.rows = rows
        self.end = RelayedRows((), ())


async def relay_batch(table: OutboxTable, client: Client, limit: int = BATCH_SIZE) -> RelayedRows:
    """Publish one batch; return its end. After an error all its rows stay."""
    async with table.take(limit) as taken:
        read = [(row.number, _read(row.request)) for row in taken.rows]
        requests = [(number, one) for number, one in read if isinstance(one, JobRequested)]
        refused = [(one, number) for number, one in read if isinstance(one, str)]
        for reason, number in refused:
            _log.error("A row is no request; it stays.", action="outbox.refused", row=number, reason=reason)
        if requests:
            await client.send_all([request for _, request in requests])
        taken.end = RelayedRows([number for number, _ in requests], refused)
        return taken.end


def _read(request: str) -> JobRequested | str:
    """The request of a row, or why it is none."""
    match decode(request.encode("utf-8", "replace"), EVENT_TYPE, registry=_REQUESTS):
        case [DecodedEvent(event=JobRequested() as event)]:
            return event
        case [DecodeFailure() as failure]:
            return failure.detail
        case _:
            return "expected one job.requested.v1, got something else"


class PostgresOutbox(OutboxTable):
    """A table of PostgreSQL. Rows are held by the transaction of a relay: they are free when it dies."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def create(self) -> None:
        connection = await self._connected()
        await connection.execute(TABLES["postgresql"])

    @asynccontextmanager
    async def take(self, limit: int) -> AsyncGenerator[Taken]:
        connection = await self._connected()
        try:
            async with connection.transaction():
                keys = [row[0] for row in await connection.fetch(_KEYS, limit)]
                own = [row[0] for row in await connection.fetch(_LOCKED, RELAYS, keys)] if keys else []
                taken = Taken([TakenRow(*row) for row in await connection.fetch(_ROWS, own, limit)])
                yield taken
                if taken.end.published:
                    statement = "DELETE FROM warrener_outbox WHERE id = ANY($1)"
                    await connection.execute(statement, taken.end.published)
                for reason, number in taken.end.refused:
                    statement = "UPDATE warrener_outbox SET refusal = $1 WHERE id = $2"
                    await connection.execute(statement, reason, number)
        except BaseException:
            connection.terminate()  # whatever its state: the server rolls back
            self._connection = None
            raise

    async def counts(self) -> tuple[int, str | None, int]:
        row = await (await self._connected()).fetchrow(_COUNTS)
        assert row is not None
        return row[0], None if row[1] is None else row[1].isoformat(), row[2]

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> "asyncpg.Connection[asyncpg.Record]":
        if self._connection is None or self._connection.is_closed():
            settings = {**_SETTINGS, "application_name": "warrener-outbox"}
            self._connection = await open_session(self._address, asyncpg.connect, server_settings=settings)
        return self._connection


class SqliteOutbox(OutboxTable):
    """A table of a SQLite file. No relay holds its rows, so that requesters may write meanwhile: two relays
    of one file publish requests twice, which is harmless, and in any order."""

    def __init__(self, address: SqliteAddress) -> None:
        self._path = address.path

    async def create(self) -> None:
        await self._run(lambda connection: connection.executescript(TABLES["sqlite"]))

    @asynccontextmanager
    async def take(self, limit: int) -> AsyncGenerator[Taken]:
        statement = "SELECT id, request FROM warrener_outbox WHERE refusal IS NULL ORDER BY id LIMIT ?"
        found = await self._run(lambda connection: connection.execute(statement, (limit,)).fetchall())
        taken = Taken([TakenRow(*row) for row in found])
        yield taken
        if taken.rows:
            await self._run(partial(_end, end=taken.end))

    async def counts(self) -> tuple[int, str | None, int]:
        found = await self._run(lambda connection: connection.execute(_COUNTS).fetchone())
        return found[0], found[1], found[2]

    async def close(self) -> None:
        """Nothing: each call has a connection of its own."""

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def connected() -> T:
            with closing(sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT)) as connection, connection:
                return work(connection)

        return await asyncio.to_thread(connected)


def _end(connection: sqlite3.Connection, end: RelayedRows) -> None:
    connection.executemany("DELETE FROM warrener_outbox WHERE id = ?", [(one,) for one in end.published])
    connection.executemany("UPDATE warrener_outbox SET refusal = ? WHERE id = ?", end.refused)
