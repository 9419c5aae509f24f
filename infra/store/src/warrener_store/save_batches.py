"""The saves of one job in one batch: a chain of versions that is applied as a whole or not at all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from uuid import UUID

from warrener_store.last_attempt import is_inlined_in_job
from warrener_store.port import Save, StoreRefused
from warrener_store.rows import AttemptRow, DeadLetter, JobRow

_NUMBER = attrgetter("int")  # what a UUID is ordered by, without its comparison in Python


@dataclass(slots=True)
class JobSaves:
    """From the version `base_version` to that of `row`, with everything that is written beside it."""

    base_version: int
    row: JobRow
    attempts: list[AttemptRow] = field(default_factory=list[AttemptRow])
    dead_letters: list[DeadLetter] = field(default_factory=list[DeadLetter])
    inlined_attempt: AttemptRow | None = None  # the last attempt, where it is kept in the job's own row


def group_saves(saves: Iterable[Save]) -> list[JobSaves]:
    """One chain for each job, in the order of job ids: whoever locks in this order cannot meet a deadlock.

    Raises StoreRefused where two saves of a job are not successive versions, or one leaves a terminal state.
    """
    by_job: dict[UUID, JobSaves] = {}
    for save in saves:
        job_saves = by_job.get(save.row.job_id)
        if job_saves is None:
            by_job[save.row.job_id] = job_saves = JobSaves(save.row.version - 1, save.row)
        else:
            _append(job_saves, save.row)
        _attach(job_saves, save)
    return [_mark_inlined_attempt(by_job[job_id]) for job_id in sorted(by_job, key=_NUMBER)]


def attempts_of(batch: Sequence[JobSaves]) -> list[AttemptRow]:
    """The attempts of all chains that become rows of their own."""
    return [
        attempt
        for job_saves in batch
        for attempt in (job_saves.attempts if job_saves.inlined_attempt is None else job_saves.attempts[:-1])
    ]


def dead_letters_of(batch: Sequence[JobSaves]) -> list[DeadLetter]:
    """The dead letters of all chains."""
    return [dead_letter for job_saves in batch for dead_letter in job_saves.dead_letters]


def _mark_inlined_attempt(job_saves: JobSaves) -> JobSaves:
    """The chain, to which nothing is added any more."""
    if job_saves.attempts and is_inlined_in_job(job_saves.row, job_saves.attempts[-1]):
        job_saves.inlined_attempt = job_saves.attempts[-1]
    return job_saves


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
