"""What both databases are asked about what is old, in the same words."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_store.checkpoints import CheckpointRow
from warrener_store.encoding import unescape
from warrener_store.records.ends import (
    ATTEMPT_COLUMNS,
    LETTER_COLUMNS,
    attempt_in,
    dead_letter_in,
)
from warrener_store.records.form import Form, document_in, text_in, text_out
from warrener_store.records.jobs import job_in
from warrener_store.retention.kinds import PLACES
from warrener_store.retention.port import (
    JobRecord,
    JobsBefore,
    Kind,
    Occurrence,
    OldJob,
    OldJobs,
    OldRows,
    Retention,
)
from warrener_store.rows import AttemptRow
from warrener_store.sql import JOB

Ask = Callable[..., Awaitable[Sequence[Sequence[Any]]]]

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_ATTEMPT = ", ".join(ATTEMPT_COLUMNS)
_LETTER = ", ".join(LETTER_COLUMNS)


class RetentionQuestions(Retention, ABC):
    """The questions of the port; a database adds the changes, and how it takes a batch of ids."""

    form: Form

    def __init__(self, ask: Ask, ask_text: Ask) -> None:
        self._ask, self._ask_text = ask, ask_text

    @abstractmethod
    def _among(self, column: str) -> str:
        """That a column is one of the ids in $1."""

    @abstractmethod
    def _ids(self, job_ids: Collection[UUID]) -> Any:
        """These ids as one parameter."""

    def _conditions(self, which: JobsBefore) -> tuple[Any, Any]:
        return self.form.moment_out(which.finished), self.form.moment_out(which.keyed)

    async def old_jobs(self, which: JobsBefore, after: tuple[datetime, UUID] | None, limit: int) -> OldJobs:
        form = self.form
        accepted_at, job_id = after or (_BEGIN, UUID(int=0))
        place = (form.moment_out(accepted_at), form.id_out(job_id))
        kind = (which.state.value, text_out(which.job_type))
        found = await self._ask("old_jobs", *self._conditions(which), *kind, *place, limit)
        free = tuple(OldJob(form.id_in(row[0]), text_in(row[2]) or "") for row in found if row[3])
        last = (form.moment_in(found[-1][1]), form.id_in(found[-1][0])) if len(found) == limit else None
        return OldJobs(free, last)

    async def job_records(self, job_ids: Collection[UUID]) -> list[JobRecord]:
        if not job_ids:
            return []
        form, ids = self.form, self._ids(job_ids)
        job_text = f"SELECT {JOB} FROM warrener_jobs AS job WHERE {self._among('job.job_id')}"  # noqa: S608
        jobs = [job_in(values, form) for values in await self._ask_text(job_text, (ids,))]
        attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
        for values in await self._ask_text(self._attempts_text(), (ids,)):
            attempts[form.id_in(values[0])].append(attempt_in(values, form))
        letters_text = f"SELECT {_LETTER} FROM warrener_dead_letters WHERE {self._among('job_id')}"  # noqa: S608
        letters = (dead_letter_in(values, form) for values in await self._ask_text(letters_text, (ids,)))
        by_job = {letter.job_id: letter for letter in letters}
        saved = {row.job_id: row for row in map(self._checkpoint, await self._ask("checkpoints_of", ids))}
        return [
            JobRecord(job, tuple(attempts[job.job_id]), by_job.get(job.job_id), saved.get(job.job_id))
            for job in jobs
        ]

    def _attempts_text(self) -> str:
        """As `attempts_of` asks, for many."""
        return (
            f"SELECT {_ATTEMPT} FROM warrener_attempts WHERE {self._among('job_id')} "  # noqa: S608
            "UNION ALL SELECT job_id, attempt, 'succeeded', owner, dispatched_at, ran_from, ran_until, NULL, "
            f"'done' FROM warrener_jobs AS job WHERE {self._among('job.job_id')} AND ran_until IS NOT NULL "
            "AND NOT EXISTS (SELECT 1 FROM warrener_attempts AS kept "
            "WHERE kept.job_id = job.job_id AND kept.attempt = job.attempt) ORDER BY 1, 2"
        )

    def _checkpoint(self, values: Sequence[Any]) -> CheckpointRow:
        job_id, attempt, number, state, saved_at = values
        return CheckpointRow(
            job_id=self.form.id_in(job_id),
            attempt=attempt,
            number=number,
            state=document_in(state),
            saved_at=self.form.moment_in(saved_at),
        )

    async def old_rows(
        self, kind: Kind, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> OldRows:
        form, place = self.form, PLACES[kind]
        moment, key = after or (_BEGIN, str(UUID(int=0)) if place.key_is_id else "")
        told = (form.moment_out(before), form.moment_out(moment), self._key(kind, key), limit)
        found = await self._ask_text(place.page(), told)
        at, when = place.columns.index(place.key), place.columns.index(place.moment)
        rows = {str(values[at]): place.row_in(values[:-1], form) for values in found if values[-1]}
        last = (form.moment_in(found[-1][when]), str(found[-1][at])) if len(found) == limit else None
        return OldRows(rows, last)

    async def old_occurrences(self, before: datetime, limit: int) -> list[Occurrence]:
        found = await self._ask("old_occurrences", self.form.moment_out(before), limit)
        return [
            Occurrence(unescape(row[0]), unescape(row[1]), unescape(row[2]), self.form.moment_in(row[3]))
            for row in found
        ]

    @abstractmethod
    def _key(self, kind: Kind, key: str) -> Any:
        """The key of a row of this kind as a parameter."""
