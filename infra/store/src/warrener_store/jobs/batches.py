"""Batches of inserts and saves: which rows are new, and which changes belong together. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from uuid import UUID

from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.encoding import escape
from warrener_store.errors import StoreRefused
from warrener_store.jobs.rows import AttemptRow, Inserted, JobRow, Save
from warrener_store.jobs.rules import is_inlined_in_job


@dataclass(slots=True)
class ExistingJobs:
    """The jobs that the store holds, by id and by idempotency key in its scope."""

    by_id: dict[UUID, JobRow] = field(default_factory=dict[UUID, JobRow])
    by_key: dict[str, JobRow] = field(default_factory=dict[str, JobRow])

    @classmethod
    def of(cls, rows: Iterable[JobRow]) -> "ExistingJobs":
        """Index these jobs."""
        known = cls()
        for row in rows:
            known.add(row)
        return known

    def add(self, row: JobRow) -> None:
        """Index one more job."""
        self.by_id[row.job_id] = row
        if (key := row.stored_key) is not None:
            self.by_key[key] = row

    def find_match(self, row: JobRow) -> JobRow | None:
        """The job that this row repeats: by its id, else by its key."""
        held = self.by_id.get(row.job_id)
        if held is None and (key := row.stored_key) is not None:
            held = self.by_key.get(key)
        return held


def resolve_in_order(rows: Sequence[JobRow], known: ExistingJobs) -> list[Inserted]:
    """Insert in order, each row after those before it. The `new` ones are to be written."""
    answers: list[Inserted] = []
    for row in rows:
        held = known.find_match(row)
        if held is None:
            known.add(row)
        answers.append(Inserted(held or row, new=held is None))
    return answers


def stored_keys(rows: Iterable[JobRow]) -> list[str]:
    """The keys under which the store may hold jobs that these repeat: also those that an earlier version has
    stored without a scope."""
    keyed = [row for row in rows if row.idempotency_key is not None]
    return [*(row.stored_key or "" for row in keyed), *bare_keys(keyed)]


def bare_keys(rows: Iterable[JobRow]) -> list[str]:
    """The keys of these as an earlier version has stored them."""
    return list({escape(row.idempotency_key) for row in rows if row.idempotency_key is not None})


def unique_rows(rows: Sequence[JobRow]) -> list[JobRow]:
    """The rows that are the first of their id and of their key, in the order of ids: one order for all
    batches prevents deadlocks between those that overlap.

    A row that is left out repeats another, or is inserted in the next round: the other may have been kept
    out.
    """
    # By the number in the id: UUIDs compare and hash by it, without methods in Python.
    first: dict[int, JobRow] = {}
    ids, keys = set[int](), set[str]()
    for row in rows:
        number, key = row.job_id.int, row.stored_key
        if number not in ids and (key is None or key not in keys):
            first[number] = row
        ids.add(number)
        if key is not None:
            keys.add(key)
    return [first[number] for number in sorted(first)]


def match_existing(
    rows: Mapping[int, JobRow], new: Iterable[UUID], held: Iterable[JobRow]
) -> dict[int, Inserted]:
    """The answers, by place in the batch, that follow from the inserted ids and the jobs found.

    A row has no answer if neither explains it: another row of its batch kept it out, and was itself kept out.
    """
    first_of = set(new)
    known = ExistingJobs.of(held)
    answers: dict[int, Inserted] = {}
    for place, row in rows.items():
        if row.job_id in first_of:
            first_of.remove(row.job_id)
            known.add(row)
            answers[place] = Inserted(row, new=True)
    for place, row in rows.items():
        if place not in answers and (stands := known.find_match(row)) is not None:
            answers[place] = Inserted(stands, new=False)
    return answers


_NUMBER = attrgetter("int")  # UUIDs are ordered by it, without a comparison in Python


@dataclass(slots=True)
class JobSaves:
    """The saves of one job: from the version `base_version` to that of `row`, applied as a whole or not at
    all."""

    base_version: int
    row: JobRow
    attempts: list[AttemptRow] = field(default_factory=list[AttemptRow])
    dead_letters: list[DeadLetter] = field(default_factory=list[DeadLetter])
    inlined_attempt: AttemptRow | None = None  # the last attempt, if the job's own row holds it


def group_saves(saves: Iterable[Save]) -> list[JobSaves]:
    """The saves of each job, in the order of job ids: locking in one order prevents deadlocks.

    Raises StoreRefused if two saves of a job are not successive versions, or one leaves a terminal state.
    """
    by_job: dict[UUID, JobSaves] = {}
    for save in saves:
        job_saves = by_job.get(save.row.job_id)
        if job_saves is None:
            by_job[save.row.job_id] = job_saves = JobSaves(save.row.version - 1, save.row)
        else:
            _append(job_saves, save.row)
        _attach(job_saves, save)
    batch = [by_job[job_id] for job_id in sorted(by_job, key=_NUMBER)]
    for one in batch:
        if one.attempts and is_inlined_in_job(one.row, one.attempts[-1]):
            one.inlined_attempt = one.attempts[-1]
    return batch


def attempts_of(batch: Sequence[JobSaves]) -> list[AttemptRow]:
    """The attempts of all jobs that become rows of their own."""
    return [
        attempt
        for job_saves in batch
        for attempt in (job_saves.attempts if job_saves.inlined_attempt is None else job_saves.attempts[:-1])
    ]


def dead_letters_of(batch: Sequence[JobSaves]) -> list[DeadLetter]:
    """The dead letters of all jobs."""
    return [dead_letter for job_saves in batch for dead_letter in job_saves.dead_letters]


def _append(job_saves: JobSaves, row: JobRow) -> None:
    if row.version != job_saves.row.version + 1:
        raise StoreRefused(
            f"expected successive versions of job {row.job_id} in one batch, got {job_saves.row.version} and "
            f"then {row.version}; judge the second on what the first one made"
        )
    if job_saves.row.state.terminal:
        raise StoreRefused(
            f"expected nothing after {job_saves.row.state} of job {row.job_id}, got {row.state}; "
            "a terminal state is never left"
        )
    job_saves.row = row


def _attach(job_saves: JobSaves, save: Save) -> None:
    for beside in (save.attempt, save.dead_letter):
        if beside is not None and beside.job_id != save.row.job_id:
            raise StoreRefused(
                f"expected an attempt or dead letter of job {save.row.job_id}, "
                f"got one of {beside.job_id}; save it with its own job"
            )
    if save.attempt is not None:
        job_saves.attempts.append(save.attempt)
    if save.dead_letter is not None:
        job_saves.dead_letters.append(save.dead_letter)
