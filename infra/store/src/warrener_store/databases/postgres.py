"""PostgreSQL: connections with time limits on both sides, and statements that each commit by themselves."""

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, cast
from uuid import UUID

import asyncpg
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from warrener_contracts.postgres_address import PostgresAddress
from warrener_contracts.postgres_limits import RESPONSE_TIMEOUT, session_settings, watch_peer
from warrener_contracts.postgres_sessions import CANNOT_WRITE, open_session
from warrener_store.batches import to_columns
from warrener_store.databases.address import server_settings
from warrener_store.databases.failures import Conflict, translate_errors
from warrener_store.databases.pool import ConnectionPool
from warrener_store.databases.session import Change, Rows, SqlSession
from warrener_store.encoding import escape
from warrener_store.mapping import POSTGRES_CODEC
from warrener_store.migrations import check_columns, check_version
from warrener_store.statements import statement

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone
else:
    Connection = asyncpg.Connection

_CHECK_SECONDS = 3
_CLOSE_SECONDS = 2
# Rows are locked for one statement, for milliseconds; no transaction of the store waits for its client.
_LIMITS = session_settings(lock=3, statement=7, idle_transaction=5)
_TRANSACTION_LIMIT = "SET transaction_timeout = '10s'"
"""Since PostgreSQL 17: also for one that hangs in the middle of a message, which counts as not idle."""
_SINCE = 17


class _Connection(Connection):
    """A connection that notices by itself that its server is gone."""

    _transport: asyncio.BaseTransport  # asyncpg's own, which its stubs leave out

    def watch_peer(self) -> None:
        """Set the limits of TCP."""
        watch_peer(self._transport.get_extra_info("socket"))


class PostgresDriver:
    """Opens and closes connections on which each statement is a transaction: no BEGIN, no COMMIT to wait for.

    A statement is prepared when it is first used.
    """

    def __init__(self, address: PostgresAddress, *, response_timeout: float = RESPONSE_TIMEOUT) -> None:
        self._address, self._response_timeout = address, response_timeout

    async def open(self) -> Connection:
        """A new connection. Raises what asyncpg raises, in time."""
        connection: Connection = await open_session(
            self._address,
            asyncpg.connect,
            server_settings=_LIMITS | server_settings(self._address),
            command_timeout=self._response_timeout,
            max_cacheable_statement_size=0,  # however long a statement is, it is prepared once
            connection_class=_Connection,
        )
        assert isinstance(connection, _Connection)
        connection.watch_peer()
        if connection.get_server_version().major >= _SINCE:
            await connection.execute(_TRANSACTION_LIMIT)
        return connection

    def is_broken(self, connection: Connection) -> bool:
        """True if the server has closed the connection."""
        return connection.is_closed()

    async def is_alive(self, connection: Connection) -> bool:
        """True if the server answers through the connection within seconds, and takes writes."""
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return not await connection.fetchval(CANNOT_WRITE, timeout=_CHECK_SECONDS)
        return False

    def abort(self, connection: Connection) -> None:
        """Close a connection that does not answer, without waiting for anything."""
        with suppress(asyncpg.InterfaceError):
            connection.terminate()

    async def close(self, connection: Connection) -> None:
        """Close the connection; a statement that still runs is cancelled if the server responds."""
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.close(timeout=_CLOSE_SECONDS)  # later asyncpg terminates it


P = ParamSpec("P")
T = TypeVar("T")


def _retry_conflicts(run: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Retry if the database ended the statement to break a deadlock."""
    retrying = retry(
        retry=retry_if_exception_type(Conflict),
        stop=stop_after_attempt(8),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )
    return cast("Callable[P, Coroutine[Any, Any, T]]", retrying(run))


class PostgresSession(SqlSession):
    """Runs statements on a pool of connections: each is one round trip, committed by itself."""

    codec = POSTGRES_CODEC

    def __init__(
        self, address: PostgresAddress, *, connections: int = 10, response_timeout: float = RESPONSE_TIMEOUT
    ) -> None:
        self._address = address
        self._pool = ConnectionPool(PostgresDriver(address, response_timeout=response_timeout), connections)

    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated if the tables are not those of this version."""
        revision = check_version([row[0] for row in await self._query("schema_version")], self._address)
        columns = {row[0]: row[1] for row in await self._query("schema_columns")}
        check_columns(columns, "postgres", revision, self._address)

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        await self._pool.close()

    async def time(self) -> datetime:
        """The server's clock."""
        now: datetime = (await self._query_text("SELECT clock_timestamp()", ()))[0][0]
        return now

    async def ping(self) -> None:
        """Make one round trip. Raises StoreUnavailable if the server is silent, read-only or full."""
        self._require_room()
        with self._timed("read"), translate_errors(self._address):
            async with self._pool.acquire() as connection:
                if await connection.fetchval(CANNOT_WRITE):
                    raise asyncpg.ReadOnlySQLTransactionError("it is read-only: a standby, or made so")

    async def _query(self, name: str, *parameters: Any) -> Rows:
        return await self._query_text(_statement(name), parameters)

    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Rows:
        return await self._fetch("read", text, parameters)

    async def _fetch(self, operation: str, text: str, parameters: Sequence[Any]) -> Rows:
        with self._timed(operation), translate_errors(self._address):
            async with self._pool.acquire() as connection:
                # A Record is a sequence of its values, but its stubs do not say so.
                return cast("list[Sequence[Any]]", await connection.fetch(text, *parameters))

    async def _change(self, name: str, *parameters: Any) -> Rows:
        return await self._query_with_retries(_statement(name), parameters)

    @_retry_conflicts
    async def _query_with_retries(self, text: str, parameters: Sequence[Any]) -> Rows:
        return await self._fetch("write", text, parameters)

    async def _change_together(self, *changes: Change) -> None:
        # One message is one transaction, and takes no parameters.
        await self._execute_with_retries(
            ";\n".join(inline_values(name, *parameters) for name, parameters in changes)
        )

    @_retry_conflicts
    async def _execute_with_retries(self, text: str) -> None:
        with self._timed("write"), translate_errors(self._address):
            async with self._pool.acquire() as connection:
                await connection.execute(text)

    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            await self._change(name, *to_columns(len(rows[0]), rows))

    def _ids(self, ids: Collection[UUID]) -> list[UUID]:
        return list(ids)

    def _names(self, names: Collection[str]) -> list[str]:
        return [escape(name) for name in names]


Literal: TypeAlias = "str | bool | datetime | Sequence[str]"


def inline_values(name: str, *values: Literal) -> str:
    """The statement of this name with values in place of `$1`, `$2` …"""
    return _PARAMETER.sub(lambda found: _literal(values[int(found[1]) - 1]), _statement(name))


_PARAMETER = re.compile(r"\$(\d+)")


def _literal(value: Literal) -> str:
    """The value as SQL text that reads the same under every setting of the session."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    if isinstance(value, datetime):
        return _literal(value.isoformat())
    return f"ARRAY[{', '.join(map(_literal, value))}]"


@cache
def _statement(name: str) -> str:
    return statement("postgres", name)
