"""The ledger in PostgreSQL: one table beside the handlers' own ones."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import asyncpg

from warrener_agent.ledger import postgres_sql as sql
from warrener_agent.ledger.answers import GRANTED, Found, answers, highest, in_order
from warrener_agent.ledger.checkpoints import Saved, saved_of
from warrener_agent.ledger.port import Claim, Completion, Failure, Forgotten, Granted, LedgerUnavailable
from warrener_agent.ledger.postgres_errors import unavailable
from warrener_agent.ledger.postgres_transaction import PostgresTransaction
from warrener_agent.ledger.records import (
    failure_of,
    failure_text,
    follow_ups_of,
    follow_ups_text,
)

V = TypeVar("V")

if TYPE_CHECKING:
    Pool = asyncpg.Pool[asyncpg.Record]

_TRANSACTIONS = 64
"""Connections for handlers' transactions; a further handler waits for one."""
_SILENCE = 15.0
"""Seconds after which a server that says nothing counts as gone."""
_SESSION = {
    # Claims name their rows by key. A plan that was made while the table was small would read all of it, and
    # is kept while it grows.
    "enable_seqscan": "off",
    # One plan a statement from the first time on: another for each of the first batches would know how long
    # their arrays are, which changes nothing and costs more than the batch.
    "plan_cache_mode": "force_generic_plan",
}


class PostgresLedger:
    """A `Ledger` in the database at `url`. Claims have connections of their own: handlers that hold all
    theirs do not keep leases from being renewed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._claims: Pool | None = None
        self._handlers: Pool | None = None

    async def start(self) -> None:
        if self._claims is not None:
            return
        with unavailable():
            claims = await asyncpg.create_pool(
                self._url,
                min_size=1,
                max_size=3,
                command_timeout=_SILENCE,
                server_settings=_SESSION,
                reset=_nothing_to_reset,
            )
            try:
                async with claims.acquire() as connection:
                    await _make_table(connection)
                handlers = await asyncpg.create_pool(self._url, min_size=0, max_size=_TRANSACTIONS)
            except BaseException:
                await claims.close()
                raise
        self._claims, self._handlers = claims, handlers

    async def close(self) -> None:
        pools = (self._handlers, self._claims)
        self._handlers = self._claims = None
        for pool in pools:
            if pool is not None:
                await pool.close()

    async def ping(self) -> None:
        with unavailable():
            await self._pool().execute("SELECT 1")

    async def time(self) -> datetime:
        with unavailable():
            told: datetime = await self._pool().fetchval("SELECT clock_timestamp()")
        return told

    async def claim(
        self, claims: Sequence[Claim], *, agent_id: str, now: datetime, until: datetime
    ) -> list[Granted]:
        wanted = highest(claims)
        with unavailable():
            told = await self._pool().fetch(sql.CLAIM, *_pairs(wanted), agent_id, until, now)
            saved = {
                row["job_id"]: saved_of(row["job_id"], row["attempt"], text)
                for row in told
                if (text := row["checkpoint"]) is not None
            }
            if len(told) == len(claims) and not saved:  # what comes back was granted, most often all of it
                return [GRANTED] * len(claims)
            granted = {Claim(row["job_id"], row["attempt"]) for row in told}
            refused = [claim.job_id for claim in wanted if claim not in granted]
            rows = await self._pool().fetch(sql.LOOK, refused) if refused else []
        return answers(claims, granted, {row["job_id"]: _found(row) for row in rows}, saved)

    async def renew(self, claims: Sequence[Claim], *, agent_id: str, until: datetime) -> set[UUID]:
        with unavailable():
            rows = await self._pool().fetch(sql.RENEW, *_pairs(claims), agent_id, until)
        return {row["job_id"] for row in rows}

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        told = in_order(completions)
        values = (
            [one.job_id for one in told],
            _once([one.attempt for one in told]),
            _once([one.result_text for one in told]),
            _once([follow_ups_text(one.follow_ups) for one in told]),
            [one.started_at for one in told],
            [one.finished_at for one in told],
        )
        with unavailable():
            rows = await self._pool().fetch(sql.COMPLETE, *values, agent_id)
        return {row["job_id"] for row in rows}

    async def fail(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        told = in_order(failures)
        values = (
            [one.job_id for one in told],
            [one.attempt for one in told],
            [failure_text(one) for one in told],
            [one.finished_at for one in told],
        )
        with unavailable():
            rows = await self._pool().fetch(sql.FAIL, *values, agent_id)
        return {row["job_id"] for row in rows}

    async def save_checkpoints(
        self, checkpoints: Sequence[Saved], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        told = in_order(checkpoints)
        values = (
            [one.job_id for one in told],
            [one.attempt for one in told],
            [one.number for one in told],
            [one.state_text for one in told],
        )
        with unavailable():
            rows = await self._pool().fetch(sql.SAVE, *values, agent_id, now)
        return {row["job_id"] for row in rows}

    async def release(self, claims: Sequence[Claim], *, agent_id: str) -> None:
        with unavailable():
            await self._pool().execute(sql.RELEASE, *_pairs(claims), agent_id)

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        with unavailable():
            await self._pool().execute(sql.CANCEL, sorted(job_ids), now)

    @asynccontextmanager
    async def transaction(self, claim: Claim, *, agent_id: str) -> AsyncGenerator[PostgresTransaction]:
        self._pool()
        assert self._handlers is not None
        one = PostgresTransaction(self._handlers, claim, agent_id)
        try:
            yield one
        finally:
            await one.end()

    async def forget(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> Forgotten:
        with unavailable():
            row = await self._pool().fetchrow(sql.FORGET, before, after, limit)
        assert row is not None, "the statement gives one row"
        return Forgotten(row["rows"], row["completions"], row["after"])

    def _pool(self) -> "Pool":
        if self._claims is None:
            raise LedgerUnavailable("expected a started ledger, got one that is closed; call start() first")
        return self._claims


async def _nothing_to_reset(_: "asyncpg.Connection[asyncpg.Record]") -> None:
    """A claim leaves nothing behind in its session, and saves the round trip that would clean it."""


async def _make_table(connection: "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]") -> None:
    if await connection.fetchval("SELECT to_regclass('warrener_ledger_claimed')") is not None:
        return  # the youngest of all; an agent may work where it may not create tables
    async with connection.transaction():
        # Several agents start at once, and IF NOT EXISTS alone lets two of them collide.
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('warrener_ledger'))")
        for statement in (sql.TABLE, sql.TABLE_BEFORE, sql.CHECKPOINTS, sql.CLAIMED):
            await connection.execute(statement)


def _pairs(claims: Sequence[Claim]) -> tuple[list[UUID], list[int]]:
    told = in_order(claims)
    return [claim.job_id for claim in told], _once([claim.attempt for claim in told])


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
            follow_ups_of(row["follow_ups"]),
            row["started_at"],
            row["finished_at"],
        )
    failure = failure_of(Claim(row["job_id"], row["attempt"]), row["failure"])
    return Found(row["attempt"], row["cancelled_at"] is not None, completion, failure)
