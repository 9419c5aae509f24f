"""The statement that lists jobs, made for what is asked. Pure."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from warrener_contracts.states import JobState
from warrener_store.port import UnknownJob
from warrener_store.records.form import Form, text_out
from warrener_store.rows import JobFilter
from warrener_store.sql import JOB

Place: TypeAlias = tuple[datetime, UUID]
"""Where a job stands among all: when it was accepted, then its id. Neither ever changes."""


def place_of(job_id: UUID, accepted_at: datetime | None) -> Place:
    """The place of the job by which a list is continued; None: the store does not know it."""
    if accepted_at is None:
        raise UnknownJob(
            f"expected the id of the last job of a page, got {job_id}, which is no job's; "
            "begin again at the first page"
        )
    return accepted_at, job_id


def listing(which: JobFilter, before: Place | None, form: Form) -> tuple[str, tuple[Any, ...]]:
    """The statement and its parameters.

    One branch for each state, each with a limit of its own: every branch walks an index backwards and stops
    at the limit, so the first page of dead jobs costs the same beside ten or beside ten million finished
    ones, and no index is needed for lists of all states.
    """
    parameters: list[Any] = [which.limit]

    def told(value: Any) -> str:
        parameters.append(value)
        return f"${len(parameters)}"

    wanted = _wanted(which, before, form, told)
    states = tuple(dict.fromkeys(which.states)) or tuple(JobState)
    branches = [_branch([f"job.state = {told(state.value)}", *wanted]) for state in states]
    everything = " UNION ALL ".join(branches)
    text = f"SELECT {JOB} FROM ({everything}) AS job {_NEWEST} LIMIT $1"  # noqa: S608 - as below
    return text, tuple(parameters)


def _wanted(which: JobFilter, before: Place | None, form: Form, told: Callable[[Any], str]) -> list[str]:
    """The conditions of every branch."""
    wanted: list[str] = []
    if which.parent_id is not None:
        wanted.append(f"job.parent_id = {told(form.id_out(which.parent_id))}")
    if which.job_type is not None:
        # With a parent, the type is no reason to go by another index than that of the parent.
        column = "job.job_type" if which.parent_id is None else "job.job_type || ''"
        wanted.append(f"{column} = {told(text_out(which.job_type))}")
    if before is not None:
        accepted_at, job_id = before
        place = f"({told(form.moment_out(accepted_at))}, {told(form.id_out(job_id))})"
        wanted.append(f"(job.accepted_at, job.job_id) < {place}")
    return wanted


_NEWEST = "ORDER BY job.accepted_at DESC, job.job_id DESC"


def _branch(conditions: list[str]) -> str:
    return (
        f"SELECT * FROM (SELECT {JOB} FROM warrener_jobs AS job "  # noqa: S608 - made of constants alone
        f"WHERE {' AND '.join(conditions)} {_NEWEST} LIMIT $1) AS page"
    )
