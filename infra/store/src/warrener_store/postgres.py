"""The state store in PostgreSQL: each operation is one statement and one round trip, committed by itself."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, cast
from uuid import UUID

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from warrener_contracts.state_machine import JobState
from warrener_store.address import PostgresAddress
from warrener_store.arrays import compact_columns
from warrener_store.dedup import match_existing, unique_rows
from warrener_store.encoding import escape
from warrener_store.failures import AGAIN, Conflict, translate_errors
from warrener_store.installation import SqlInstallations
from warrener_store.job_extras import SqlJobExtras
from warrener_store.latest_by_key import latest_by_key
from warrener_store.parked import PARKED_COLUMNS, ParkedMessage, SqlParkedMessages, parked_to_row
from warrener_store.pool import ConnectionPool
from warrener_store.port import Inserted, Save, StateStore, StoreUnavailable
from warrener_store.postgres_dead_letters import PostgresDeadLetters
from warrener_store.postgres_driver import RESPONSE_TIMEOUT, PostgresDriver
from warrener_store.postgres_escalations import PostgresEscalations
from warrener_store.queued_reads import QueuedReads
from warrener_store.reads import StateReads
from warrener_store.records.agents import (
    AGENT_COLUMNS,
    JOB_TYPE_COLUMNS,
    agent_to_row,
    job_type_from_row,
    job_type_to_row,
)
from warrener_store.records.breakers import breaker_to_row
from warrener_store.records.codec import POSTGRES_CODEC
from warrener_store.records.jobs import JOB_COLUMNS, job_from_row
from warrener_store.records.new_jobs import jobs_to_arrays
from warrener_store.records.outcomes import (
    ATTEMPT_COLUMNS,
    DEAD_LETTER_INSERT_COLUMNS,
    attempt_to_row,
    dead_letter_to_row,
)
from warrener_store.records.saved_jobs import saves_to_arrays
from warrener_store.records.successes import succeeded_from_rows, successes_to_arrays
from warrener_store.retention.postgres import PostgresRetention
from warrener_store.rows import AgentRow, BreakerRow, JobRow, JobTypeRow
from warrener_store.save_batches import attempts_of, dead_letters_of, group_saves
from warrener_store.schedules.declarations import SqlDeclarations
from warrener_store.schedules.postgres import PostgresSchedules
from warrener_store.schedules.postgres_watches import PostgresWatches
from warrener_store.schema import check_version
from warrener_store.sql import statement
from warrener_store.successes import SucceededJob, Success
from warrener_store.triggers.postgres import PostgresTriggers
from warrener_store.watchers import MAX_WATCHERS

_CANNOT_WRITE = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"

_again = retry(
    retry=retry_if_exception_type(Conflict),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(multiplier=0.01, max=0.5),
    reraise=True,
)


class PostgresStore(
    PostgresSchedules,
    PostgresWatches,
    SqlDeclarations,
    SqlInstallations,
    SqlParkedMessages,
    SqlJobExtras,
    QueuedReads,
    StateReads,
    StateStore,
):
    """Safe for any number of tasks, processes and hosts at once."""

    codec = POSTGRES_CODEC

    def __init__(
        self, address: PostgresAddress, *, connections: int = 10, response_timeout: float = RESPONSE_TIMEOUT
    ) -> None:
        self._address = address
        self._pool = ConnectionPool(PostgresDriver(address, response_timeout=response_timeout), connections)

    @property
    def escalations(self) -> PostgresEscalations:
        """The cases of the escalation."""
        return PostgresEscalations(self._query, self._change)

    @property
    def dead_letter_store(self) -> PostgresDeadLetters:
        """Dead letters, and the campaigns over them."""
        return PostgresDeadLetters(self._query_text, self._change)

    @property
    def retention(self) -> PostgresRetention:
        """What is old."""
        return PostgresRetention(self._query, self._query_text, self._change)

    @property
    def triggers(self) -> PostgresTriggers:
        """What schedules wait for."""
        return PostgresTriggers(self._query, self._change)

    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated where the tables are not those of this version."""
        check_version([row[0] for row in await self._query("schema_version")], self._address)

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        await self._pool.close()

    async def time(self) -> datetime:
        """The server's clock."""
        now: datetime = (await self._query_text("SELECT clock_timestamp()", ()))[0][0]
        return now

    async def ping(self) -> None:
        """One round trip. Raises StoreUnavailable where it does not answer, or could not be written."""
        ((cannot_write,),) = await self._query_text(_CANNOT_WRITE, ())
        if cannot_write:
            raise StoreUnavailable(f"the store {self._address} is read-only: a standby, or made so{AGAIN}")

    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        return await self._query_text(_statement(name), parameters)

    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Sequence[Sequence[Any]]:
        with translate_errors(self._address):
            async with self._pool.acquire() as connection:
                # A Record is a sequence of its values, but its stubs do not say so.
                return cast("list[Sequence[Any]]", await connection.fetch(text, *parameters))

    @_again
    async def _change(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run a statement that changes something; again where the database broke off a circle of waiting."""
        return await self._query_text(_statement(name), parameters)

    @_again
    async def _change_all(self, *statements: str) -> None:
        """Run these in one message, which is one transaction; none of them has parameters."""
        with translate_errors(self._address):
            async with self._pool.acquire() as connection:
                await connection.execute(";\n".join(statements))

    # -- jobs, by those who decide ------------------------------------------------------------------------

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
        """Insert those that are new by id and by idempotency key; one answer for each, in order."""
        answers: dict[int, Inserted] = {}
        while len(answers) < len(rows):
            # More than one round only where a row was kept out by another of its batch that was kept out too.
            left = {place: row for place, row in enumerate(rows) if place not in answers}
            new = await self._insert(unique_rows(tuple(left.values())))
            if len(new) == len(rows):
                return [Inserted(row, new=True) for row in rows]
            held = (
                await self._held(row for row in left.values() if row.job_id not in new)
                if _more(left, new)
                else ()
            )
            answers |= match_existing(left, new, held)
        return [answers[place] for place in range(len(rows))]

    async def _insert(self, rows: Sequence[JobRow]) -> set[UUID]:
        """The ids of those that are new."""
        inserted = await self._change("insert_jobs", *jobs_to_arrays(rows))
        count, ids = inserted[0]
        return {row.job_id for row in rows} if count == len(rows) else set(ids or ())

    async def _held(self, rows: Iterable[JobRow]) -> list[JobRow]:
        requested = list(rows)
        keys = [escape(row.idempotency_key) for row in requested if row.idempotency_key is not None]
        found = await self._query("jobs_by_id_or_key", [row.job_id for row in requested], keys)
        return [job_from_row(values, POSTGRES_CODEC) for values in found]

    async def jobs_by_id(self, job_ids: Collection[UUID]) -> dict[UUID, JobRow]:
        """The jobs that exist of these."""
        if not job_ids:
            return {}
        found = (
            job_from_row(values, POSTGRES_CODEC) for values in await self._query("jobs_by_id", list(job_ids))
        )
        return {row.job_id: row for row in found}

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        """Apply each change whose version still holds; return the ids of those that were applied."""
        batch = group_saves(saves)
        if not batch:
            return set()
        attempts = (attempt_to_row(row, POSTGRES_CODEC) for row in attempts_of(batch))
        dead_letters = (dead_letter_to_row(row, POSTGRES_CODEC) for row in dead_letters_of(batch))
        changed = await self._change(
            "save_jobs",
            *saves_to_arrays(batch),
            *compact_columns(len(ATTEMPT_COLUMNS), attempts),
            *compact_columns(len(DEAD_LETTER_INSERT_COLUMNS), dead_letters),
        )
        return {row[0] for row in changed}

    async def succeed_jobs(self, successes: Sequence[Success], now: datetime) -> dict[UUID, SucceededJob]:
        """End those whose current attempt this is and which are in flight; what there is to tell of them."""
        by_job = {success.job_id: success for success in successes}
        if not by_job:
            return {}
        return succeeded_from_rows(
            await self._change("succeed_jobs", *successes_to_arrays(by_job.values()), now), by_job, now
        )

    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        """Jobs in these states with `wake_at <= now`, oldest first, claimed by moving it to `until`."""
        return _oldest_first(
            await self._change("claim_due", [state.value for state in states], now, until, limit)
        )

    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        """Jobs that are not over with `deadline_at <= now`, the earliest first, claimed in the same way."""
        return _oldest_first(await self._change("claim_deadlines", now, until, limit))

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        """Those of these jobs that run with `lease_until <= now`, claimed by moving it to `until`."""
        if not job_ids:
            return []
        found = (
            job_from_row(values, POSTGRES_CODEC)
            for values in await self._change("claim_lost", list(job_ids), now, until)
        )
        return sorted(found, key=lambda row: row.job_id)

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        """Add reply addresses to jobs that are not over; return the ids of those jobs."""
        columns = _arrays(2, ((job_id, escape(address)) for job_id, address in watchers))
        return {row[0] for row in await self._change("add_watchers", *columns, MAX_WATCHERS)}

    # -- what agents announce -----------------------------------------------------------------------------

    async def put_job_types(self, job_types: Sequence[JobTypeRow]) -> None:
        """Insert or replace by name; an older announcement does not replace a newer one."""
        rows = latest_by_key(job_types, lambda row: row.name, lambda row: row.announced_at).values()
        columns = _arrays(len(JOB_TYPE_COLUMNS), (job_type_to_row(row, POSTGRES_CODEC) for row in rows))
        await self._change("put_job_types", *columns)

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        """The job types of these names, or all."""
        requested = None if names is None else [escape(name) for name in names]
        found = (
            job_type_from_row(values, POSTGRES_CODEC) for values in await self._query("job_types", requested)
        )
        return {row.name: row for row in found}

    async def put_agents(self, agents: Sequence[AgentRow]) -> None:
        """Insert or update by agent id; an older word does not replace a newer one."""
        rows = latest_by_key(agents, lambda row: row.agent_id, lambda row: row.last_seen_at).values()
        await self._change(
            "put_agents", *_arrays(len(AGENT_COLUMNS), (agent_to_row(row, POSTGRES_CODEC) for row in rows))
        )

    # -- circuit breakers ---------------------------------------------------------------------------------

    async def put_breaker(self, row: BreakerRow) -> bool:
        """Keep its first version, or the one after that which is stored; False where another was faster."""
        return bool(await self._change("put_breaker", *breaker_to_row(row, POSTGRES_CODEC)))

    async def release_held_jobs(
        self, job_types: Collection[str], now: datetime, beyond: datetime, limit: int
    ) -> int:
        """Have jobs looked at now that wait or retry, are due and were put off. How many."""
        names = [escape(name) for name in job_types]
        return len(await self._change("wake_held", names, now, beyond, limit))

    # -- what is kept beside some jobs ----------------------------------------------------------------------

    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            await self._change(name, *_arrays(len(rows[0]), rows))

    def _ids(self, job_ids: Collection[UUID]) -> list[UUID]:
        return list(job_ids)

    def _names(self, names: Collection[str]) -> list[str]:
        return [escape(name) for name in names]

    # -- what is buried -----------------------------------------------------------------------------------

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        """Keep these; of one that is parked already, only `times` grows."""
        await self._change(
            "park",
            *_arrays(len(PARKED_COLUMNS) - 1, (parked_to_row(row, POSTGRES_CODEC) for row in messages)),
        )


def _arrays(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """One array for each column; empty ones where there is no row."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _more(rows: dict[int, JobRow], new: set[UUID]) -> bool:
    return len(rows) > len(new)


def _oldest_first(found: Sequence[Sequence[Any]]) -> list[JobRow]:
    """UPDATE … RETURNING gives rows in any order; when they were due stands behind their columns."""
    return [
        job_from_row(values, POSTGRES_CODEC)
        for values in sorted(found, key=lambda row: (row[len(JOB_COLUMNS)], row[0]))
    ]


@cache
def _statement(name: str) -> str:
    return statement("postgres", name)
