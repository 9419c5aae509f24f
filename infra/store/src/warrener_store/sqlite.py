"""The state store in a SQLite file, for one host: several processes may use it, one writes at a time.

A batch is one transaction, begun IMMEDIATE: what it has read cannot change before it has written. SQLite is
called and not asked over a network, so inside the transaction a statement is run for each row: its fastest
way.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast
from uuid import UUID

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from warrener_contracts.state_machine import JobState
from warrener_store.address import SqliteAddress
from warrener_store.dedup import ExistingJobs, resolve_in_order
from warrener_store.encoding import encode, escape
from warrener_store.failures import MIGRATE, translate_errors
from warrener_store.installation import SqlInstallations
from warrener_store.job_extras import SqlJobExtras
from warrener_store.parked import ParkedMessage, SqlParkedMessages, parked_to_row
from warrener_store.port import Inserted, Save, StateStore, StoreNotMigrated
from warrener_store.queued_reads import QueuedReads
from warrener_store.reads import StateReads
from warrener_store.records.agents import agent_to_row, job_type_from_row, job_type_to_row
from warrener_store.records.breakers import breaker_to_row
from warrener_store.records.codec import SQLITE_CODEC, decode_texts, encode_texts
from warrener_store.records.jobs import JOB_COLUMNS, job_from_row, run_times_to_row, state_to_row
from warrener_store.records.new_jobs import jobs_to_columns
from warrener_store.records.outcomes import attempt_to_row, dead_letter_to_row
from warrener_store.records.successes import succeeded_from_rows, successes_to_rows
from warrener_store.retention.sqlite import SqliteRetention
from warrener_store.rows import AgentRow, BreakerRow, JobRow, JobTypeRow
from warrener_store.save_batches import JobSaves, attempts_of, dead_letters_of, group_saves
from warrener_store.schedules.declarations import SqlDeclarations
from warrener_store.schedules.sqlite import SqliteSchedules
from warrener_store.schedules.sqlite_watches import SqliteWatches
from warrener_store.schema import check_version
from warrener_store.sql import Positional, positional, statement
from warrener_store.sqlite_dead_letters import SqliteDeadLetters
from warrener_store.sqlite_engine import BUSY_SECONDS, acquire_connection, sqlite_engine
from warrener_store.sqlite_escalations import SqliteEscalations
from warrener_store.successes import SucceededJob, Success
from warrener_store.triggers.sqlite import SqliteTriggers
from warrener_store.watchers import merge_watchers

_ID, _KEY, _TYPE, _STATE = map(JOB_COLUMNS.index, ("job_id", "idempotency_key", "job_type", "state"))


class SqliteStore(
    SqliteSchedules,
    SqliteWatches,
    SqlDeclarations,
    SqlInstallations,
    SqlParkedMessages,
    SqlJobExtras,
    QueuedReads,
    StateReads,
    StateStore,
):
    """Safe for any number of tasks and processes of one host."""

    codec = SQLITE_CODEC

    def __init__(self, address: SqliteAddress, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._address = address
        self._busy_seconds = busy_seconds
        self._engine = sqlite_engine(address, busy_seconds=busy_seconds)
        # SQLite lets waiting writers poll; in this process they queue.
        self._writer = asyncio.Lock()

    @property
    def escalations(self) -> SqliteEscalations:
        """The cases of the escalation."""
        return SqliteEscalations(self._query, self._writing)

    @property
    def dead_letter_store(self) -> SqliteDeadLetters:
        """Dead letters, and the campaigns over them."""
        return SqliteDeadLetters(self._query_text, self._writing)

    @property
    def retention(self) -> SqliteRetention:
        """What is old."""
        return SqliteRetention(self._query, self._query_text, self._writing)

    @property
    def triggers(self) -> SqliteTriggers:
        """What schedules wait for."""
        return SqliteTriggers(self._query, self._writing)

    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated where the tables are not those of this version."""
        if not await asyncio.to_thread(self._address.path.exists):
            raise StoreNotMigrated(f"expected a store at {self._address}, got no such file; {MIGRATE}")
        check_version([row[0] for row in await self._query("schema_version")], self._address)

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        await self._engine.dispose()

    async def time(self) -> datetime:
        """The clock of this host, which all who share the file have."""
        return datetime.now(UTC)

    async def ping(self) -> None:
        """Takes the write lock. Raises StoreUnavailable where that cannot be had in time."""
        async with self._writing():
            pass

    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        return await self._read(_statement(name), parameters)

    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return await self._read(positional(text), parameters)

    async def _read(self, prepared: Positional, parameters: Sequence[Any]) -> Sequence[Sequence[Any]]:
        with translate_errors(self._address):
            async with acquire_connection(self._engine) as connection:
                driver = await _driver(connection)
                return list(await driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator["_Transaction"]:
        """A transaction that is committed at the end, or rolled back whatever goes wrong inside."""
        with translate_errors(self._address):
            async with asyncio.timeout(self._busy_seconds):  # those who wait for a lock wait at the same time
                await self._writer.acquire()
            try:
                async with acquire_connection(self._engine) as connection:
                    driver = await _driver(connection)
                    try:
                        await driver.execute("BEGIN IMMEDIATE")
                        yield _Transaction(driver)
                        await driver.commit()
                    except BaseException:
                        await driver.rollback()
                        raise
            finally:
                self._writer.release()

    # -- jobs, by those who decide ------------------------------------------------------------------------

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
        """Insert those that are new by id and by idempotency key; one answer for each, in order."""
        if not rows:
            return []
        requested = list(zip(*jobs_to_columns(rows, SQLITE_CODEC), strict=True))
        ids = encode([values[_ID] for values in requested])
        keys = encode([values[_KEY] for values in requested if values[_KEY] is not None])
        async with self._writing() as transaction:
            held = await transaction.query("jobs_by_id_or_key", ids, keys)
            answers = resolve_in_order(
                rows, ExistingJobs.of(job_from_row(values, SQLITE_CODEC) for values in held)
            )
            new = [values for values, answer in zip(requested, answers, strict=True) if answer.new]
            await transaction.run("insert_job", new)
            await transaction.count(Counter((values[_TYPE], values[_STATE]) for values in new))
        return answers

    async def jobs_by_id(self, job_ids: Collection[UUID]) -> dict[UUID, JobRow]:
        """The jobs that exist of these."""
        if not job_ids:
            return {}
        requested = encode([str(job_id) for job_id in job_ids])
        found = (job_from_row(values, SQLITE_CODEC) for values in await self._query("jobs_by_id", requested))
        return {row.job_id: row for row in found}

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        """Apply each change whose version still holds; return the ids of those that were applied."""
        batch = group_saves(saves)
        if not batch:
            return set()
        judged = encode([(str(job_saves.row.job_id), job_saves.base_version) for job_saves in batch])
        async with self._writing() as transaction:
            found = {UUID(row[0]): row for row in await transaction.query("saveable_jobs", judged)}
            applied = [job_saves for job_saves in batch if job_saves.row.job_id in found]
            await transaction.run("save_job", (_save_to_row(job_saves) for job_saves in applied))
            await transaction.run(
                "insert_attempt", (attempt_to_row(row, SQLITE_CODEC) for row in attempts_of(applied))
            )
            dead_letters = (dead_letter_to_row(row, SQLITE_CODEC) for row in dead_letters_of(applied))
            await transaction.run("insert_dead_letter", dead_letters)
            moved = Counter(
                (str(found[job_saves.row.job_id][1]), job_saves.row.state.value) for job_saves in applied
            )
            moved.subtract((str(row[1]), str(row[2])) for row in found.values())
            await transaction.count(moved)
        return set(found)

    async def succeed_jobs(self, successes: Sequence[Success], now: datetime) -> dict[UUID, SucceededJob]:
        """End those whose current attempt this is and which are in flight; what there is to tell of them."""
        by_job = {success.job_id: success for success in successes}
        if not by_job:
            return {}
        requested = encode([(str(success.job_id), success.attempt) for success in successes])
        async with self._writing() as transaction:
            found = await transaction.query("succeedable_jobs", requested)
            jobs = succeeded_from_rows(found, by_job, now, SQLITE_CODEC)
            await transaction.run("succeed_job", successes_to_rows((by_job[job_id] for job_id in jobs), now))
            moved = Counter((str(row[1]), JobState.SUCCEEDED.value) for row in found)
            moved.subtract((str(row[1]), str(row[-1])) for row in found)
            await transaction.count(moved)
        return jobs

    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        """Jobs in these states with `wake_at <= now`, oldest first, claimed by moving it to `until`."""
        names = encode([state.value for state in states])
        found = await self._claim(("due_jobs", names, _text(now), limit), "claim_due", until)
        return [replace(row, version=row.version + 1, wake_at=until) for row in found]

    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        """Jobs that are not over with `deadline_at <= now`, the earliest first, claimed in the same way."""
        found = await self._claim(("overdue_jobs", _text(now), limit), "claim_overdue", until)
        return [replace(row, version=row.version + 1) for row in found]

    async def _claim(self, question: tuple[Any, ...], change: str, until: datetime) -> list[JobRow]:
        if not await self._query(*question):
            return []  # most looks find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = [job_from_row(values, SQLITE_CODEC) for values in await transaction.query(*question)]
            await transaction.run(change, [(encode([str(row.job_id) for row in found]), _text(until))])
        return found

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        """Those of these jobs that run with `lease_until <= now`, claimed by moving it to `until`."""
        found = await self._claim(("losable_jobs", self._ids(job_ids), _text(now)), "claim_lost", until)
        rows = (replace(row, version=row.version + 1, lease_until=until) for row in found)
        return sorted(rows, key=lambda row: row.job_id)

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        """Add reply addresses to jobs that are not over; return the ids of those jobs."""
        more: dict[str, list[str]] = {}
        for job_id, address in watchers:
            more.setdefault(str(job_id), []).append(address)
        if not more:
            return set()
        async with self._writing() as transaction:
            live = await transaction.query("watchers_of", encode(list(more)))
            watched = (
                (row[0], encode_texts(merge_watchers(decode_texts(row[1]), more[row[0]]))) for row in live
            )
            await transaction.run("set_watchers", watched)
        return {UUID(row[0]) for row in live}

    # -- what agents announce -----------------------------------------------------------------------------

    async def put_job_types(self, job_types: Sequence[JobTypeRow]) -> None:
        """Insert or replace by name; an older announcement does not replace a newer one."""
        await self._put("put_job_type", (job_type_to_row(row, SQLITE_CODEC) for row in job_types))

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        """The job types of these names, or all."""
        requested = None if names is None else encode([escape(name) for name in names])
        found = (
            job_type_from_row(values, SQLITE_CODEC) for values in await self._query("job_types", requested)
        )
        return {row.name: row for row in found}

    async def put_agents(self, agents: Sequence[AgentRow]) -> None:
        """Insert or update by agent id; an older word does not replace a newer one."""
        await self._put("put_agent", (agent_to_row(row, SQLITE_CODEC) for row in agents))

    # -- circuit breakers ---------------------------------------------------------------------------------

    async def put_breaker(self, row: BreakerRow) -> bool:
        """Keep its first version, or the one after that which is stored; False where another was faster."""
        async with self._writing() as transaction:
            return bool(await transaction.query("put_breaker", *breaker_to_row(row, SQLITE_CODEC)))

    async def release_held_jobs(
        self, job_types: Collection[str], now: datetime, beyond: datetime, limit: int
    ) -> int:
        """Have jobs looked at now that wait or retry, are due and were put off. How many."""
        requested = (encode([escape(name) for name in job_types]), _text(now), _text(beyond), limit)
        if not await self._query("held_jobs", *requested):
            return 0  # most looks find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            held = [str(row[0]) for row in await transaction.query("held_jobs", *requested)]
            await transaction.run("claim_due", [(encode(held), _text(now))])
        return len(held)

    # -- what is kept beside some jobs ----------------------------------------------------------------------

    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            await self._put(name, rows)

    def _ids(self, job_ids: Collection[UUID]) -> str:
        return encode([str(job_id) for job_id in job_ids])

    def _names(self, names: Collection[str]) -> str:
        return encode([escape(name) for name in names])

    # -- what is buried -----------------------------------------------------------------------------------

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        """Keep these; of one that is parked already, only `times` grows."""
        once = {row.parked_id: row for row in reversed(messages)}.values()
        await self._put("park", (parked_to_row(row, SQLITE_CODEC) for row in once))

    async def _put(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        async with self._writing() as transaction:
            await transaction.run(name, rows)


class _Transaction:
    """What is done between BEGIN and COMMIT. Each step is one visit to the connection's thread."""

    def __init__(self, driver: aiosqlite.Connection) -> None:
        self._driver = driver

    async def query(self, name: str, *parameters: Any) -> list[sqlite3.Row]:
        """The rows that the statement of this name gives."""
        prepared = _statement(name)
        return list(await self._driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    async def query_text(self, text: str, *parameters: Any) -> list[sqlite3.Row]:
        """The rows that this statement gives."""
        prepared = positional(text)
        return list(await self._driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    async def run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run the statement of this name for each of these rows."""
        change = _statement(name)
        batch = [change.arrange(row) for row in rows]
        if batch:
            await self._driver.executemany(change.text, batch)

    async def count(self, moved: Counter[tuple[str, str]]) -> None:
        """Move the counts of (job type as the column keeps it, state)."""
        changes = ((job_type, state, jobs) for (job_type, state), jobs in sorted(moved.items()) if jobs)
        await self.run("count_moved", changes)


async def _driver(connection: AsyncConnection) -> aiosqlite.Connection:
    """The connection itself: a statement through SQLAlchemy visits its thread four times, here once."""
    return cast("aiosqlite.Connection", (await connection.get_raw_connection()).driver_connection)


def _save_to_row(job_saves: JobSaves) -> tuple[Any, ...]:
    return (
        *state_to_row(job_saves.row, SQLITE_CODEC),
        *run_times_to_row(job_saves.inlined_attempt, SQLITE_CODEC),
        str(job_saves.row.job_id),
    )


def _text(moment: datetime) -> str:
    return cast("str", SQLITE_CODEC.encode_moment(moment))


@cache
def _statement(name: str) -> Positional:
    return positional(statement("sqlite", name))
