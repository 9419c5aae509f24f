"""Jobs in PostgreSQL: each operation is one statement and one round trip, committed by itself."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.batches import to_columns
from warrener_store.databases.session import Rows
from warrener_store.dead_letters.columns import NEW_DEAD_LETTERS
from warrener_store.encoding import escape
from warrener_store.errors import StoreRefused
from warrener_store.jobs.batch_columns import jobs_to_arrays, saves_to_arrays, successes_to_arrays
from warrener_store.jobs.batches import (
    ExistingJobs,
    attempts_of,
    bare_keys,
    dead_letters_of,
    group_saves,
    match_existing,
    stored_keys,
    unique_rows,
)
from warrener_store.jobs.columns import ATTEMPTS, JOB_COLUMNS, UNIQUE_KEYS, job_from_row, succeeded_from_rows
from warrener_store.jobs.rows import Inserted, JobRow, Save
from warrener_store.jobs.rules import MAX_HELD, MAX_WATCHERS
from warrener_store.jobs.store import JobStore
from warrener_store.jobs.unique import KeyPlan, key_of, plan_inserts, sorted_inserts
from warrener_store.jobs.views import SucceededJob, Success
from warrener_store.mapping import POSTGRES_CODEC


class PostgresJobs(JobStore):
    """Jobs, for any number of tasks, processes and hosts at once."""

    async def _insert_jobs(self, rows: Sequence[JobRow], without_keys: Collection[UUID]) -> list[Inserted]:
        if without_keys:
            await self._change("release_keys", sorted(set(without_keys)))
        answers = await self._repeats_of_bare_keys(rows)
        while len(answers) < len(rows):
            # More than one round only if a row was kept out by another of its batch that was kept out too.
            left = {place: row for place, row in enumerate(rows) if place not in answers}
            new = await self._insert(unique_rows(tuple(left.values())))
            if len(new) == len(rows):
                return [Inserted(row, new=True) for row in rows]
            held = (
                await self._held(row for row in left.values() if row.job_id not in new)
                if len(left) > len(new)
                else ()
            )
            answers |= match_existing(left, new, held)
        return [answers[place] for place in range(len(rows))]

    async def _insert(self, rows: Sequence[JobRow]) -> set[UUID]:
        """The ids of the rows that are new."""
        return _inserted_ids(rows, await self._change("insert_jobs", *jobs_to_arrays(rows)))

    async def _insert_unique(self, rows: Sequence[JobRow]) -> list[Inserted]:
        answers: dict[int, Inserted] = {}
        was_refused = False
        while left := {place: row for place, row in enumerate(rows) if place not in answers}:
            # More than one round if another scheduler has taken a key that was read as free. Keys first: if
            # one of these rows is inserted behind that, its key is another job's, and nothing is written.
            keys = self._names({key for row in left.values() if (key := key_of(row)) is not None})
            held = self._holders(await self._query("held_unique_keys", keys))
            existing = ExistingJobs.of(await self._held(left.values()))
            plans = plan_inserts(left, existing, held)
            try:
                new = await self._insert_planned(plans)
            except StoreRefused:  # a row has the idempotency key of another that was inserted meanwhile
                if was_refused:
                    raise
                was_refused = True
                continue
            for plan in plans:
                if plan.holder is None or plan.holder.job_id in new:
                    answers |= plan.answers
        return [answers[place] for place in range(len(rows))]

    async def _insert_planned(self, plans: Sequence[KeyPlan]) -> set[UUID]:
        """The ids of the rows that are new: of a plan all, or none if its key or its waiting job has
        changed."""
        inserts = sorted_inserts(plans)
        if not inserts:
            return set()
        rows = [row for row, _ in inserts]
        ended = {plan.key: plan.replacement or (None, None) for plan in plans}
        taken = [row for plan in plans if (row := plan.row) is not None]
        columns = (
            (*UNIQUE_KEYS.to_row(row, POSTGRES_CODEC), *ended[row.unique_key])
            for row in sorted(taken, key=lambda row: row.unique_key)
        )
        found = await self._change(
            "insert_unique_jobs",
            *jobs_to_arrays(rows),
            [holder for _, holder in inserts],
            *to_columns(len(UNIQUE_KEYS.columns) + 2, columns),
            max(row.updated_at for row in rows),
        )
        return _inserted_ids(rows, found)

    async def _repeats_of_bare_keys(self, rows: Sequence[JobRow]) -> dict[int, Inserted]:
        """The answers for rows whose key an earlier version has stored without a scope: no unique index keeps
        those out. Batches without keys cost nothing."""
        keys = bare_keys(rows)
        if not keys or not await self._query("jobs_by_id_or_key", [], keys):
            return {}
        known = ExistingJobs.of(await self._held(rows))
        found = ((place, known.find_match(row)) for place, row in enumerate(rows))
        return {place: Inserted(held, new=False) for place, held in found if held is not None}

    async def _held(self, rows: Iterable[JobRow]) -> list[JobRow]:
        requested = list(rows)
        ids = [row.job_id for row in requested]
        return self._jobs(await self._query("jobs_by_id_or_key", ids, stored_keys(requested)))

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        batch = group_saves(saves)
        if not batch:
            return set()
        changed = await self._change(
            "save_jobs",
            *saves_to_arrays(batch),
            *ATTEMPTS.to_arrays(attempts_of(batch)),
            *NEW_DEAD_LETTERS.to_arrays(dead_letters_of(batch)),
        )
        return {row[0] for row in changed}

    async def succeed_jobs(self, successes: Sequence[Success], now: datetime) -> dict[UUID, SucceededJob]:
        by_job = {success.job_id: success for success in successes}
        if not by_job:
            return {}
        return succeeded_from_rows(
            await self._change("succeed_jobs", *successes_to_arrays(by_job.values()), now), by_job, now
        )

    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        names = [state.value for state in states]
        return _oldest_first(await self._change("claim_due", names, now, until, limit))

    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        return _oldest_first(await self._change("claim_deadlines", now, until, limit))

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        if not job_ids:
            return []
        rows = self._jobs(await self._change("claim_lost", list(job_ids), now, until))
        return sorted(rows, key=lambda row: row.job_id)

    async def release_held_jobs(
        self,
        job_types: Collection[str],
        now: datetime,
        beyond: datetime,
        limit: int,
        *,
        paused: Collection[str] = (),
    ) -> int:
        names, queues = self._names(job_types), self._names(paused)
        return len(await self._change("wake_held", names, now, beyond, limit, queues, now + MAX_HELD))

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        columns = to_columns(2, ((job_id, escape(address)) for job_id, address in watchers))
        return {row[0] for row in await self._change("add_watchers", *columns, MAX_WATCHERS)}


def _inserted_ids(rows: Sequence[JobRow], found: Rows) -> set[UUID]:
    count, ids = found[0]
    return {row.job_id for row in rows} if count == len(rows) else set(ids or ())


def _oldest_first(found: Rows) -> list[JobRow]:
    """Sort by the moment behind the columns, when each job was due: UPDATE … RETURNING gives no order."""
    return [
        job_from_row(values, POSTGRES_CODEC)
        for values in sorted(found, key=lambda row: (row[len(JOB_COLUMNS)], row[0]))
    ]
