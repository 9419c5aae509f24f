"""The ledger in PostgreSQL: one table beside the handlers' own ones."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import asyncpg

from warrener_agent.ledger import postgres_sql as sql
from warrener_agent.ledger.checkpoints import SavedCheckpoint, parse_checkpoint
from warrener_agent.ledger.claim_results import GRANTED, Found, claim_results, highest_attempts, sort_by_job
from warrener_agent.ledger.port import (
    Claim,
    ClaimResult,
    Completion,
    DeletedRows,
    Failure,
    LedgerUnavailable,
    Renewal,
)
from warrener_agent.ledger.postgres_errors import translate_outages
from warrener_agent.ledger.postgres_locks import LockTolerantBatches
from warrener_agent.ledger.postgres_sessions import CLAIMS, HANDLERS, close_pool, fetch, open_pool
from warrener_agent.ledger.postgres_transaction import PostgresTransaction
from warrener_agent.ledger.row_codec import (
    decode_failure,
    decode_follow_ups,
    encode_failure,
    encode_follow_ups,
)

V = TypeVar("V")
B = TypeVar("B", Claim, Completion, Failure, SavedCheckpoint)

if TYPE_CHECKING:
    from warrener_agent.ledger.postgres_sessions import Pool

_TRANSACTIONS = 64
"""Connections for handlers' transactions; a further handler waits for one."""
_TABLES = 600.0
"""Seconds that making the tables may take, or adding to large ones what this version needs."""


class PostgresLedger:
    """A `Ledger` in the database at `url`. Claims have connections of their own: handlers that hold all
    theirs do not keep leases from being renewed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._claims: Pool | None = None
        self._renewals: Pool | None = None
        self._handlers: Pool | None = None
        self._renewing = 0
        self._rows = LockTolerantBatches(self._fetch)

    async def start(self) -> None:
        if self._claims is not None:
            return
        opened: list[Pool] = []
        with translate_outages():
            try:
                for session, least, most in ((CLAIMS, 1, 3), (CLAIMS, 0, 2), (HANDLERS, 0, _TRANSACTIONS)):
                    opened.append(await open_pool(self._url, session, min_size=least, max_size=most))
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
                await close_pool(pool)

    async def ping(self) -> None:
        with translate_outages():
            ((cannot_write,),) = await self._fetch(sql.CANNOT_WRITE)
        if cannot_write:
            raise LedgerUnavailable(
                "expected the ledger's PostgreSQL to be writable, got one that is read-only; try again"
            )

    async def time(self) -> datetime:
        with translate_outages():
            now: datetime = (await self._fetch("SELECT clock_timestamp()"))[0][0]
        return now

    async def claim(self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta) -> list[ClaimResult]:
        wanted = highest_attempts(claims)
        with translate_outages():
            claimed_rows, locked = await self._rows.run(
                wanted, lambda free: self._fetch(sql.CLAIM, *_pairs(free), agent_id, lease)
            )
            saved = {
                row["job_id"]: parse_checkpoint(row["job_id"], row["attempt"], text)
                for row in claimed_rows
                if (text := row["checkpoint"]) is not None
            }
            if (
                len(claimed_rows) == len(claims) and not saved
            ):  # what comes back was granted, most often all of it
                return [GRANTED] * len(claims)
            granted = {Claim(row["job_id"], row["attempt"]) for row in claimed_rows}
            refused = [claim.job_id for claim in wanted if claim not in granted]
            rows = await self._fetch(sql.LOOK, refused) if refused else []
        found = {row["job_id"]: _found(row) for row in rows}
        return claim_results(claims, granted, found, saved, locked=locked)

    async def renew(
        self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta, even_awaited: bool = False
    ) -> Renewal:
        """Connections of their own: what claims wait for does not keep leases from being renewed. One that is
        asked for while another is not answered goes by a new connection."""
        self._pool()
        pool = self._renewals
        assert pool is not None
        if self._renewing:
            await pool.expire_connections()
        self._renewing += 1
        statement = sql.RENEW_EVEN_AWAITED if even_awaited else sql.RENEW
        try:
            with translate_outages():
                rows, locked = await self._rows.run(
                    claims, lambda free: fetch(pool, statement, *_pairs(free), agent_id, lease)
                )
        finally:
            self._renewing -= 1
        return Renewal({row["job_id"] for row in rows}, locked)

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        def record(free: Sequence[Completion]) -> Awaitable[list[asyncpg.Record]]:
            values = (
                [one.job_id for one in free],
                _once([one.attempt for one in free]),
                _once([one.result_text for one in free]),
                _once([encode_follow_ups(one.follow_ups) for one in free]),
                [one.started_at for one in free],
                [one.finished_at for one in free],
            )
            return self._fetch(sql.COMPLETE, *values, agent_id)

        return await self._change(sort_by_job(completions), record)

    async def fail(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        def record(free: Sequence[Failure]) -> Awaitable[list[asyncpg.Record]]:
            values = (
                [one.job_id for one in free],
                [one.attempt for one in free],
                [encode_failure(one) for one in free],
                [one.finished_at for one in free],
            )
            return self._fetch(sql.FAIL, *values, agent_id)

        return await self._change(sort_by_job(failures), record)

    async def save_checkpoints(
        self, checkpoints: Sequence[SavedCheckpoint], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        def save(free: Sequence[SavedCheckpoint]) -> Awaitable[list[asyncpg.Record]]:
            values = (
                [one.job_id for one in free],
                [one.attempt for one in free],
                [one.number for one in free],
                [one.state_text for one in free],
            )
            return self._fetch(sql.SAVE, *values, agent_id, now)

        return await self._change(sort_by_job(checkpoints), save)

    async def release(self, claims: Sequence[Claim], *, agent_id: str) -> None:
        """What is locked is free when its lease ends."""
        await self._change(claims, lambda free: self._fetch(sql.RELEASE, *_pairs(free), agent_id))

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        jobs = [Claim(job_id, 0) for job_id in sorted(job_ids)]
        with translate_outages():
            _, locked = await self._rows.run(
                jobs, lambda free: self._fetch(sql.CANCEL, [one.job_id for one in free], now)
            )
        if locked:
            raise LedgerUnavailable(
                f"expected to mark {len(jobs)} jobs as cancelled, got {len(locked)} locked rows; try again"
            )

    @asynccontextmanager
    async def transaction(
        self, claim: Claim, *, agent_id: str, time_left: float = inf
    ) -> AsyncGenerator[PostgresTransaction]:
        self._pool()
        assert self._handlers is not None
        one = PostgresTransaction(self._handlers, claim, agent_id, time_left)
        try:
            yield one
        finally:
            await one.end()

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> DeletedRows:
        with translate_outages():
            (row,) = await self._fetch(sql.FORGET, before, after, limit)
        return DeletedRows(row["rows"], row["completions"], row["after"])

    async def _change(
        self, batch: Sequence[B], work: Callable[[Sequence[B]], Awaitable[list[asyncpg.Record]]]
    ) -> set[UUID]:
        """The jobs that were changed."""
        with translate_outages():
            rows, _ = await self._rows.run(batch, work)
        return {row["job_id"] for row in rows}

    async def _fetch(self, statement: str, *values: Any) -> "list[asyncpg.Record]":
        return await fetch(self._pool(), statement, *values)

    def _pool(self) -> "Pool":
        if self._claims is None:
            raise LedgerUnavailable("expected a started ledger, got one that is closed; call start() first")
        return self._claims


async def _make_table(connection: "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]") -> None:
    if await connection.fetchval(sql.IS_MADE) is not None:
        return
    async with connection.transaction():
        # Several agents start at once, and IF NOT EXISTS alone lets two of them collide.
        await connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('warrener_ledger'))", timeout=_TABLES)
        for statement in (sql.TABLE, sql.TABLE_BEFORE, sql.CHECKPOINTS, sql.CLAIMED):
            await connection.execute(statement, timeout=_TABLES)


def _pairs(claims: Sequence[Claim]) -> tuple[list[UUID], list[int]]:
    ordered = sort_by_job(claims)
    return [claim.job_id for claim in ordered], _once([claim.attempt for claim in ordered])


def _once(column: list[V]) -> list[V]:
    """The column, none of whose values is None; one value where all are equal, as the statements take it."""
    return column[:1] if column and column.count(column[0]) == len(column) else column


def _found(row: "asyncpg.Record") -> Found:
    completion = None
    if row["finished_at"] is not None:
        completion = Completion(
            row["job_id"],
            row["attempt"],
            row["result"],
            decode_follow_ups(row["follow_ups"]),
            row["started_at"],
            row["finished_at"],
        )
    failure = decode_failure(Claim(row["job_id"], row["attempt"]), row["failure"])
    return Found(row["attempt"], row["cancelled_at"] is not None, completion, failure)
