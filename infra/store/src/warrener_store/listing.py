"""The statement that lists jobs, made for what is asked. Pure."""

from typing import Any

from warrener_contracts.states import JobState
from warrener_store.records.form import Form
from warrener_store.rows import JobFilter
from warrener_store.sql import JOB


def listing(which: JobFilter, form: Form) -> tuple[str, tuple[Any, ...]]:
    """The statement and its parameters.

    One branch for each state, each with a limit of its own: every branch walks an index backwards and stops
    at the limit, so the first page of dead jobs costs the same beside ten or beside ten million finished
    ones.
    """
    parameters: list[Any] = [which.limit]
    wanted: list[str] = []
    for condition, value in (
        ("job.job_type = {}", which.job_type),
        ("job.parent_id = {}", form.id_out(which.parent_id)),
        ("job.job_id < {}", form.id_out(which.before)),
    ):
        if value is not None:
            parameters.append(value)
            wanted.append(condition.format(f"${len(parameters)}"))
    branches: list[str] = []
    for state in _states(which):
        parameters.append(state.value)
        branches.append(_branch([f"job.state = ${len(parameters)}", *wanted]))
    everything = " UNION ALL ".join(branches) or _branch(wanted)
    text = f"SELECT {JOB} FROM ({everything}) AS job ORDER BY job.job_id DESC LIMIT $1"  # noqa: S608 - as below
    return text, tuple(parameters)


def _states(which: JobFilter) -> tuple[JobState, ...]:
    """The states to branch by; none: one walk through all jobs, by primary key or by parent."""
    if which.states:
        return tuple(dict.fromkeys(which.states))
    by_type = which.job_type is not None and which.parent_id is None
    return tuple(JobState) if by_type else ()


def _branch(conditions: list[str]) -> str:
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    return (
        f"SELECT * FROM (SELECT {JOB} FROM warrener_jobs AS job {where}"  # noqa: S608 - made of constants alone
        "ORDER BY job.job_id DESC LIMIT $1) AS page"
    )
