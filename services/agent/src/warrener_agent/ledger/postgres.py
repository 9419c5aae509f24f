"""The ledger in PostgreSQL: one table beside the handlers' own ones."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import asyncpg

from warrener_agent.ledger import port, postgres_sessions, rows, statements
from warrener_contracts.postgres_address import PostgresAddress
from warrener_contracts.postgres_limits import RESPONSE_TIMEOUT
from warrener_contracts.postgres_sessions import CANNOT_WRITE

V = TypeVar("V")

if TYPE_CHECKING:
    from warrener_agent.ledger.postgres_sessions import Connection, Pool

_SQL = statements.ledger_statements("postgres")
_LOST = "warrener: the claim was lost"
"""The server's error for `commit_with` if the claim is no longer this agent's."""
_MAX_TRANSACTIONS = 64  # connections for handlers' transactions; a further handler waits for one
_TABLES_TIMEOUT = 600.0  # seconds that making the tables may take, or adding columns to large ones
_BEGIN_TIMEOUT = 4.0
"""Seconds that a connection has for the first answer; after that another one is tried, once."""
_ROLLBACK_TIMEOUT = 2.0  # seconds that a connection has to roll back; after that it is closed
_MIN_COMMIT_TIMEOUT = 1.0
_SPARE = 2.0
"""Seconds after the attempt's end at which the server ends the transaction, if it receives nothing."""
_MAX_SERVER_TIMEOUT = 2_147_483  # seconds; PostgreSQL counts milliseconds in 31 bits


class PostgresLedger:
    """A `Ledger` in the database at `address`.

    Claims have connections of their own: handlers that hold all theirs do not block the renewal of leases.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._claims: Pool | None = None
        self._renewals: Pool | None = None
        self._handlers: Pool | None = None
        self._renewing = 0
        self._rows = postgres_sessions.LockTolerantBatches(self._fetch)

    async def start(self) -> None:
        if self._claims is not None:
            return
        opened: list[Pool] = []
        with postgres_sessions.translate_outages():
            try:
                for session, least, most in (
                    (postgres_sessions.CLAIMS, 1, 3),
                    (postgres_sessions.CLAIMS, 0, 2),
                    (postgres_sessions.HANDLERS, 0, _MAX_TRANSACTIONS),
                ):
                    opened.append(
                        await postgres_sessions.open_pool(
                            self._address, session, min_size=least, max_size=most
                        )
                    )
                async with opened[0].acquire() as connection:
                    await _make_table(connection)
            except BaseException:
                for pool in opened:
                    pool.terminate()
                raise
        self._claims, self._renewals, self._handlers = opened

    async def close(self) -> None:
        pools = (self._handlers, self._renewals, self._claims)
        self._handlers = self._renewals = self._claims = None
        for pool in pools:
            if pool is not None:
                await postgres_sessions.close_pool(pool)

    async def ping(self) -> None:
        with postgres_sessions.translate_outages():
            async with postgres_sessions.leave_read_only(self._pool()):
                if (await self._fetch(CANNOT_WRITE))[0][0]:
                    raise asyncpg.ReadOnlySQLTransactionError("it is read-only: a standby, or made so")

    async def time(self) -> datetime:
        with postgres_sessions.translate_outages():
            now: datetime = (await self._fetch("SELECT clock_timestamp()"))[0][0]
        return now

    async def claim(
        self, claims: Sequence[port.Claim], *, agent_id: str, lease: timedelta
    ) -> list[port.ClaimResult]:
        wanted = rows.highest_attempts(claims)
        with postgres_sessions.translate_outages():
            claimed_rows, locked = await self._rows.run(
                wanted, lambda free: self._fetch(_SQL["claim"], *_pairs(free), agent_id, lease)
            )
            if len(claimed_rows) == len(claims) and not any(row["checkpoint"] for row in claimed_rows):
                return [rows.GRANTED] * len(claims)  # all of them, as most often
            granted = {port.Claim(*row[:2]): rows.decode_checkpoint(*row) for row in claimed_rows}
            refused = [claim.job_id for claim in wanted if claim not in granted]
            refusals = await self._fetch(_SQL["look"], refused) if refused else []
        found = {row["job_id"]: _found(row) for row in refusals}
        return rows.claim_results(claims, granted, found, locked=locked)

    async def renew(
        self, claims: Sequence[port.Claim], *, agent_id: str, lease: timedelta, even_awaited: bool = False
    ) -> port.Renewal:
        """Renew by connections of their own, so that no claim blocks a renewal. A renewal requested while
        another is unanswered uses a new connection."""
        self._pool()
        pool = self._renewals
        assert pool is not None
        if self._renewing:
            await pool.expire_connections()
        self._renewing += 1
        statement = _SQL["renew_even_awaited"] if even_awaited else _SQL["renew"]
        try:
            with postgres_sessions.translate_outages():
                renewed, locked = await self._rows.run(
                    claims,
                    lambda free: postgres_sessions.fetch(pool, statement, *_pairs(free), agent_id, lease),
                )
        finally:
            self._renewing -= 1
        return port.Renewal({row["job_id"] for row in renewed}, locked)

    async def complete(self, completions: Sequence[port.Completion], *, agent_id: str) -> set[UUID]:
        def record(free: Sequence[port.Completion]) -> Awaitable[list[asyncpg.Record]]:
            values = (
                [one.job_id for one in free],
                _once([one.attempt for one in free]),
                _once([one.result_text for one in free]),
                _once([rows.encode_child_jobs(one.child_jobs) for one in free]),
                [one.started_at for one in free],
                [one.finished_at for one in free],
            )
            return self._fetch(_SQL["complete"], *values, agent_id)

        return await self._change(rows.sort_by_job(completions), record)

    async def fail(self, failures: Sequence[port.Failure], *, agent_id: str) -> set[UUID]:
        return await self._fail("fail", failures, agent_id)

    async def fail_abandoned(self, failures: Sequence[port.Failure], *, agent_id: str) -> set[UUID]:
        return await self._fail("fail_abandoned", failures, agent_id, port.HOLDER_MARK, port.PROCESS_MARK)

    async def _fail(self, statement: str, failures: Sequence[port.Failure], *more: str) -> set[UUID]:
        def record(free: Sequence[port.Failure]) -> Awaitable[list[asyncpg.Record]]:
            values = ((one.job_id, one.attempt, rows.encode_failure(one), one.finished_at) for one in free)
            return self._fetch(_SQL[statement], *_columns(values), *more)

        return await self._change(rows.sort_by_job(failures), record)

    async def save_checkpoints(
        self, checkpoints: Sequence[port.SavedCheckpoint], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        return await self._change(
            rows.sort_by_job(checkpoints),
            lambda free: self._fetch(_SQL["save"], *_columns(free), agent_id, now),
        )

    async def release(self, claims: Sequence[port.Claim], *, agent_id: str) -> None:
        """Release claims; a locked one is free when its lease ends."""
        await self._change(claims, lambda free: self._fetch(_SQL["release"], *_pairs(free), agent_id))

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        jobs = [port.Claim(job_id, 0) for job_id in sorted(job_ids)]
        with postgres_sessions.translate_outages():
            _, locked = await self._rows.run(
                jobs, lambda free: self._fetch(_SQL["cancel"], [one.job_id for one in free], now)
            )
        if locked:
            raise port.LedgerUnavailable(
                f"expected to mark {len(jobs)} jobs as cancelled, got {len(locked)} locked rows; try again"
            )

    @asynccontextmanager
    async def transaction(
        self, claim: port.Claim, *, agent_id: str, time_left: float = inf
    ) -> "AsyncGenerator[PostgresTransaction]":
        self._pool()
        assert self._handlers is not None
        one = PostgresTransaction(self._handlers, claim, agent_id, time_left)
        try:
            yield one
        finally:
            await one.end()

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> port.DeletedRows:
        with postgres_sessions.translate_outages():
            (row,) = await self._fetch(_SQL["forget"], before, after, limit)
        return port.DeletedRows(row["rows"], row["completions"], row["after"])

    async def _change(
        self, batch: Sequence[rows.R], work: Callable[[Sequence[rows.R]], Awaitable[list[asyncpg.Record]]]
    ) -> set[UUID]:
        """Return the jobs that were changed."""
        with postgres_sessions.translate_outages():
            changed, _ = await self._rows.run(batch, work)
        return {row["job_id"] for row in changed}

    async def _fetch(self, statement: str, *values: Any) -> "list[asyncpg.Record]":
        return await postgres_sessions.fetch(self._pool(), statement, *values)

    def _pool(self) -> "Pool":
        if self._claims is None:
            raise port.LedgerUnavailable(
                "expected a started ledger, got one that is closed; call start() first"
            )
        return self._claims


async def _make_table(connection: "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]") -> None:
    if await connection.fetchval(_SQL["is_made"]) is not None:
        return
    async with connection.transaction():
        # Several agents may start at once, and IF NOT EXISTS alone lets two of them collide.
        await connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        await connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext('warrener_ledger'))", timeout=_TABLES_TIMEOUT
        )
        for statement in (_SQL["table"], _SQL["table_before"], _SQL["checkpoints"], _SQL["claimed"]):
            await connection.execute(statement, timeout=_TABLES_TIMEOUT)


def _pairs(claims: Sequence[port.Claim]) -> tuple[list[UUID], list[int]]:
    ordered = rows.sort_by_job(claims)
    return [claim.job_id for claim in ordered], _once([claim.attempt for claim in ordered])


def _columns(table: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*table, strict=True)]


def _once(column: list[V]) -> list[V]:
    """Reduce a column of equal values to one, which the statements accept. No value is None."""
    return column[:1] if column and column.count(column[0]) == len(column) else column


def _found(row: "asyncpg.Record") -> rows.Found:
    completion = None
    if row["finished_at"] is not None:
        completion = port.Completion(
            row["job_id"],
            row["attempt"],
            row["result"],
            rows.decode_child_jobs(row["child_jobs"]),
            row["started_at"],
            row["finished_at"],
        )
    failure = rows.decode_failure(port.Claim(row["job_id"], row["attempt"]), row["failure"])
    return rows.Found(row["attempt"], row["cancelled_at"] is not None, completion, failure)


class PostgresTransaction(statements.SerialTransaction):
    """An `OpenTransaction`. It takes a connection with its first statement, not before.

    The server itself limits the transaction to the attempt's time: an agent that is cut off holds the
    handler's rows no longer.
    """

    def __init__(self, pool: "Pool", claim: port.Claim, agent_id: str, time_left: float) -> None:
        super().__init__()
        self._pool, self._claim, self._agent_id = pool, claim, agent_id
        self._timeout_at = monotonic() + time_left
        self._connection: Connection | None = None
        self._clean = False  # True once the session has nothing open and nothing left

    async def _execute(self, statement: str, parameters: statements.Parameters) -> list[Mapping[str, Any]]:
        text, names = statements.number_parameters(statement)
        connection = await self._begin()
        with postgres_sessions.translate_outages():
            async with postgres_sessions.leave_read_only(self._pool):
                if not isinstance(parameters, Mapping) and (parameters or names):
                    await connection.executemany(text, [_values(one, names) for one in parameters])
                    return []
                given: Mapping[str, Any] = parameters if isinstance(parameters, Mapping) else {}
                return [dict(row) for row in await connection.fetch(text, *_values(given, names))]

    async def _record(self, completion: port.Completion) -> bool:
        """Commit in one round trip, within the attempt's time. Without an answer the outcome is in doubt, and
        the ledger knows."""
        connection = await self._begin()
        limit = min(RESPONSE_TIMEOUT, max(self._timeout_at - monotonic(), _MIN_COMMIT_TIMEOUT))
        with postgres_sessions.translate_outages():
            message = _SQL["commit_with"].format(
                lost=_LOST,
                job_id=_literal(self._claim.job_id),
                attempt=int(self._claim.attempt),
                agent_id=_literal(self._agent_id),
                result=_literal(completion.result_text),
                child_jobs=_literal(rows.encode_child_jobs(completion.child_jobs)),
                started_at=_literal(completion.started_at),
                finished_at=_literal(completion.finished_at),
                clean_up=connection.get_reset_query(),
            )
            try:
                async with postgres_sessions.leave_read_only(self._pool):
                    await connection.execute(message, timeout=limit)
            except TimeoutError:
                self._clean = True  # the session is gone
                await postgres_sessions.terminate_connection(self._pool, connection)
                raise
            except asyncpg.InvalidTextRepresentationError as error:
                if _LOST in str(error):
                    return False
                raise
        self._clean = True
        return True

    async def _begin(self) -> "Connection":
        self._require_open()
        if self._connection is None:
            with postgres_sessions.translate_outages():
                try:
                    self._connection = await self._begun()
                except TimeoutError:  # the connection was idle; by now all idle ones are closed
                    self._connection = await self._begun()
        return self._connection

    async def _begun(self) -> "Connection":
        connection = await self._pool.acquire()
        left = min(max(self._timeout_at - monotonic(), 0.0) + _SPARE, _MAX_SERVER_TIMEOUT)
        try:
            await connection.execute(
                "BEGIN; "
                f"SET LOCAL statement_timeout = {left * 1000:.0f}; "
                f"SET LOCAL idle_in_transaction_session_timeout = {left * 1000:.0f}",
                timeout=_BEGIN_TIMEOUT,
            )
        except BaseException:
            await postgres_sessions.terminate_connection(self._pool, connection)
            await self._pool.release(connection)
            raise
        return connection

    async def end(self) -> None:
        self._over = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.shield(self._give_back(connection))

    async def _give_back(self, connection: "Connection") -> None:
        try:
            if not self._clean:
                async with asyncio.timeout(_ROLLBACK_TIMEOUT):  # a running statement is cancelled before
                    await connection.execute(f"ROLLBACK; {connection.get_reset_query()}")
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            with suppress(asyncpg.InterfaceError):  # it was closed before
                connection.terminate()  # the server rolls back what it finds open
        finally:
            await self._pool.release(connection)


def _values(parameters: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    missing = [name for name in names if name not in parameters]
    if missing:
        raise ValueError(f"expected a value for :{', :'.join(missing)}, got {sorted(parameters)}")
    return [parameters[name] for name in names]


def _literal(value: str | UUID | datetime | None) -> str:
    """Write a value as SQL text, which reads the same whatever a handler has set in its session."""
    if value is None:
        return "NULL"
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
