"""Successes as columns, and what the store tells of the jobs that they have ended."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from warrener_contracts.state_machine import STATE_MACHINE, Signal, Transition
from warrener_contracts.states import JobState
from warrener_store.arrays import once
from warrener_store.encoding import unescape
from warrener_store.records.form import NATIVE, TEXTUAL, Form, document_out, text_in, text_out, texts_in
from warrener_store.records.policies import policy_in
from warrener_store.successes import SucceededJob, Success

SUCCEEDED_COLUMNS = (
    "job_id",
    "job_type",
    "policy",
    "parent_id",
    "traceparent",
    "tracestate",
    "requested_at",
    "watchers",
)
"""What a statement tells of each job that was ended, in the order of `succeeded_in`."""

IN_FLIGHT = tuple(state for state in JobState if isinstance(STATE_MACHINE[state, Signal.SUCCEEDED], Transition))
"""The states from which the journey leads to a success."""

_NUMBER = attrgetter("job_id.int")  # in one order: whoever locks in it cannot meet a deadlock


def arrays_of(successes: Iterable[Success]) -> list[list[Any]]:
    """The columns of a Success as `succeed_jobs` of PostgreSQL takes them: all but the ids as short as they
    may be."""
    told = sorted(successes, key=_NUMBER)
    ids, attempts, agents, results, *moments = zip(*told, strict=True)
    columns = [
        list(attempts),
        [text_out(agent) for agent in agents],
        [document_out(result) for result in results],
        *map(list, moments),
    ]
    return [list(ids), *map(once, columns)]


def rows_of(successes: Iterable[Success], now: datetime) -> Iterable[tuple[Any, ...]]:
    """The parameters of `succeed_job` of SQLite."""
    moment = TEXTUAL.moment_out
    for told in successes:
        yield (
            text_out(told.agent_id),
            document_out(told.result),
            moment(told.started_at),
            moment(told.finished_at),
            moment(now),
            str(told.job_id),
        )


def succeeded_in(
    found: Iterable[Sequence[Any]], told: Mapping[UUID, Success], now: datetime, form: Form = NATIVE
) -> dict[UUID, SucceededJob]:
    """The jobs whose SUCCEEDED_COLUMNS have these values; what stands behind them is left alone."""
    jobs: dict[UUID, SucceededJob] = {}
    for values in found:
        job_id = form.id_in(values[0])
        success = told[job_id]
        watchers = values[7]
        jobs[job_id] = SucceededJob(
            job_id,
            success.attempt,
            success.result,
            now,
            unescape(values[1]),
            policy_in(values[2]),
            form.id_in(values[3]),
            text_in(values[4]),
            text_in(values[5]),
            form.moment_in(values[6]),
            () if watchers == "[]" else texts_in(watchers),
        )
    return jobs
