"""Jobs in a SQLite file: each batch is one transaction."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.databases.transaction import TransactionalSession, WriteTransaction
from warrener_store.dead_letters.columns import NEW_DEAD_LETTERS
from warrener_store.encoding import encode
from warrener_store.jobs import batches, unique
from warrener_store.jobs.batch_columns import jobs_to_columns, saves_to_rows, successes_to_rows
from warrener_store.jobs.columns import ATTEMPTS, JOB_COLUMNS, UNIQUE_KEYS, succeeded_from_rows
from warrener_store.jobs.rows import Inserted, JobRow, Save
from warrener_store.jobs.rules import MAX_HELD, merge_watchers
from warrener_store.jobs.store import JobStore
from warrener_store.jobs.views import SucceededJob, Success
from warrener_store.mapping import SQLITE_CODEC, decode_texts, encode_text, encode_texts

_text = SQLITE_CODEC.encode_moment
_ID, _TYPE, _QUEUE, _STATE = map(JOB_COLUMNS.index, ("job_id", "job_type", "queue", "state"))


class SqliteJobs(JobStore, TransactionalSession):
    """Jobs, for any number of tasks and processes of one host."""

    async def _insert_jobs(self, rows: Sequence[JobRow], without_keys: Collection[UUID]) -> list[Inserted]:
        if not rows and not without_keys:
            return []
        requested = list(zip(*jobs_to_columns(rows, SQLITE_CODEC), strict=True))
        ids = encode([values[_ID] for values in requested])
        keys = encode(batches.stored_keys(rows))
        async with self._writing() as transaction:
            if without_keys:
                await transaction.run("release_keys", [(self._ids(without_keys),)])
            held = await transaction.query("jobs_by_id_or_key", ids, keys)
            answers = batches.resolve_in_order(rows, batches.ExistingJobs.of(self._jobs(held)))
            new = [values for values, answer in zip(requested, answers, strict=True) if answer.new]
            await _insert(transaction, new)
        return answers

    async def _insert_unique(self, rows: Sequence[JobRow]) -> list[Inserted]:
        ids, keys = encode([str(row.job_id) for row in rows]), encode(batches.stored_keys(rows))
        unique_keys = self._names({key for row in rows if (key := unique.key_of(row)) is not None})
        async with self._writing() as transaction:
            existing = batches.ExistingJobs.of(
                self._jobs(await transaction.query("jobs_by_id_or_key", ids, keys))
            )
            held = self._holders(await transaction.query("held_unique_keys", unique_keys))
            plans = unique.plan_inserts(dict(enumerate(rows)), existing, held)
            ended = [one.replacement for one in plans if one.replacement is not None]
            moment = _text(max(row.updated_at for row in rows))
            await transaction.run("cancel_waiting", ((str(one.job_id), one.reason, moment) for one in ended))
            new = [row for row, _ in unique.sorted_inserts(plans)]
            await _insert(transaction, zip(*jobs_to_columns(new, SQLITE_CODEC), strict=True))
            taken = [UNIQUE_KEYS.to_row(one.row, SQLITE_CODEC) for one in plans if one.row is not None]
            await transaction.run("put_unique_key", taken)
        answers = {place: answer for one in plans for place, answer in one.answers.items()}
        return [answers[place] for place in range(len(rows))]

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        batch = batches.group_saves(saves)
        if not batch:
            return set()
        judged = encode([(str(job_saves.row.job_id), job_saves.base_version) for job_saves in batch])
        async with self._writing() as transaction:
            found = {UUID(row[0]): row for row in await transaction.query("saveable_jobs", judged)}
            applied = [job_saves for job_saves in batch if job_saves.row.job_id in found]
            await transaction.run("save_job", saves_to_rows(applied))
            attempts = (ATTEMPTS.to_row(row, SQLITE_CODEC) for row in batches.attempts_of(applied))
            await transaction.run("insert_attempt", attempts)
            dead_letters = (
                NEW_DEAD_LETTERS.to_row(row, SQLITE_CODEC) for row in batches.dead_letters_of(applied)
            )
            await transaction.run("insert_dead_letter", dead_letters)
            moved = Counter(
                (job_saves.row.job_type, job_saves.row.queue, job_saves.row.state.value)
                for job_saves in applied
            )
            moved.subtract((str(row[1]), str(row[2]), str(row[3])) for row in found.values())
            await transaction.count(moved)
        return set(found)

    async def succeed_jobs(self, successes: Sequence[Success], now: datetime) -> dict[UUID, SucceededJob]:
        by_job = {success.job_id: success for success in successes}
        if not by_job:
            return {}
        requested = encode(
            [(str(one.job_id), one.attempt, one.job_type, encode_text(one.agent_id)) for one in successes]
        )
        async with self._writing() as transaction:
            found = await transaction.query("succeedable_jobs", requested)
            jobs = succeeded_from_rows(found, by_job, now, SQLITE_CODEC)
            await transaction.run("succeed_job", successes_to_rows((by_job[job_id] for job_id in jobs), now))
            moved = Counter((str(row[1]), str(row[-2]), JobState.SUCCEEDED.value) for row in found)
            moved.subtract((str(row[1]), str(row[-2]), str(row[-1])) for row in found)
            await transaction.count(moved)
        return jobs

    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        names = encode([state.value for state in states])
        found = await self._claim(("due_jobs", names, _text(now), limit), "claim_due", _text(until))
        return [replace(row, version=row.version + 1, wake_at=until) for row in self._jobs(found)]

    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        found = await self._claim(("overdue_jobs", _text(now), limit), "claim_overdue", _text(until))
        return [replace(row, version=row.version + 1) for row in self._jobs(found)]

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        question = ("losable_jobs", self._ids(job_ids), _text(now))
        found = self._jobs(await self._claim(question, "claim_lost", _text(until)))
        rows = (replace(row, version=row.version + 1, lease_until=until) for row in found)
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
        question = ("held_jobs", names, _text(now), _text(beyond), limit, queues, _text(now + MAX_HELD))
        return len(await self._claim(question, "claim_due", _text(now)))

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
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


async def _insert(transaction: WriteTransaction, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert the jobs of these columns, and count them."""
    new = list(rows)
    await transaction.run("insert_job", new)
    await transaction.count(Counter((values[_TYPE], values[_QUEUE], values[_STATE]) for values in new))
