"""The statement that lists jobs by a filter. Pure."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.errors import UnknownJob
from warrener_store.jobs.columns import JOB
from warrener_store.jobs.rows import JobFilter
from warrener_store.mapping import ColumnCodec, encode_text
from warrener_store.statements import Parameters

JobPosition: TypeAlias = tuple[datetime, UUID]
"""The position of a job among all: when it was accepted, then its id. Neither ever changes."""


def position_of(job_id: UUID, accepted_at: datetime | None) -> JobPosition:
    """The position after which a list continues. Raises UnknownJob if the job was never accepted."""
    if accepted_at is None:
        raise UnknownJob(
            f"expected the id of the last job of a page, got {job_id}, which is no job's; "
            "begin again at the first page"
        )
    return accepted_at, job_id


def job_list_query(
    which: JobFilter, before: JobPosition | None, codec: ColumnCodec
) -> tuple[str, tuple[Any, ...]]:
    """The statement and its parameters.

    Each kind of jobs has a page of its own: those of one state and one job type, or of one state and one
    parent. It walks an index backwards and stops at the limit, so the first page of dead jobs costs the same
    beside ten or beside ten million finished ones. The kinds are taken from the counts, so that lists of all
    types need no index of their own.
    """
    parameters = Parameters(which.limit)
    kinds, page = _kinds(which, parameters.bind), _page(which, before, codec, parameters.bind)
    text = (
        f"SELECT {JOB} FROM ({kinds}) AS kind "  # noqa: S608 - made of constants alone
        f"JOIN warrener_jobs AS job ON {codec.one_of('job.job_id', page)} "
        "ORDER BY job.accepted_at DESC, job.job_id DESC LIMIT $1"
    )
    return text, tuple(parameters.values)


def _kinds(which: JobFilter, bind: Callable[[Any], str]) -> str:
    """The kinds of jobs that may be on the page."""
    states = ", ".join(bind(state.value) for state in dict.fromkeys(which.states) or JobState)
    conditions = [f"state IN ({states})"]
    if which.job_type is not None:
        conditions.append(f"job_type = {bind(encode_text(which.job_type))}")
    columns = "state, job_type" if which.parent_id is None else "state"
    return f"SELECT DISTINCT {columns} FROM warrener_job_counts WHERE {' AND '.join(conditions)}"  # noqa: S608 - as above


def _page(
    which: JobFilter, before: JobPosition | None, codec: ColumnCodec, bind: Callable[[Any], str]
) -> str:
    """The ids of the newest jobs of one kind."""
    conditions = ["held.state = kind.state"]
    if which.parent_id is None:
        conditions.append("held.job_type = kind.job_type")
    else:
        conditions.append(f"held.parent_id = {bind(codec.encode_id(which.parent_id))}")
        if which.job_type is not None:  # no reason to go by another index than that of the parent
            conditions.append(f"held.job_type || '' = {bind(encode_text(which.job_type))}")
    if which.accepted_from is not None:
        conditions.append(f"held.accepted_at >= {bind(codec.encode_moment(which.accepted_from))}")
    if which.accepted_until is not None:
        conditions.append(f"held.accepted_at <= {bind(codec.encode_moment(which.accepted_until))}")
    if before is not None:
        accepted_at, job_id = before
        place = f"({bind(codec.encode_moment(accepted_at))}, {bind(codec.encode_id(job_id))})"
        conditions.append(f"(held.accepted_at, held.job_id) < {place}")
    return (
        f"SELECT held.job_id FROM warrener_jobs AS held WHERE {' AND '.join(conditions)} "  # noqa: S608 - as above
        "ORDER BY held.accepted_at DESC, held.job_id DESC LIMIT $1"
    )
