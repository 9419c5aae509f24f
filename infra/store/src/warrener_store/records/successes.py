"""Successes as columns, and what the store tells of the jobs that they have ended."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from warrener_contracts.state_machine import STATE_MACHINE, JobState, Signal, Transition
from warrener_store.arrays import compact_repeats
from warrener_store.encoding import unescape
from warrener_store.records.codec import (
    POSTGRES_CODEC,
    SQLITE_CODEC,
    ColumnCodec,
    decode_text,
    decode_texts,
    encode_document,
    encode_text,
)
from warrener_store.records.policies import decode_policy
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
"""What a statement tells of each job that was ended, in the order of `succeeded_from_rows`."""

IN_FLIGHT = tuple(
    state for state in JobState if isinstance(STATE_MACHINE[state, Signal.SUCCEEDED], Transition)
)
"""The states from which the journey leads to a success."""

_NUMBER = attrgetter("job_id.int")  # in one order: whoever locks in it cannot meet a deadlock


def successes_to_arrays(successes: Iterable[Success]) -> list[list[Any]]:
    """The columns of a Success as `succeed_jobs` of PostgreSQL takes them: all but the ids as short as they
    may be."""
    ordered = sorted(successes, key=_NUMBER)
    ids, attempts, agents, results, *moments = zip(*ordered, strict=True)
    columns = [
        list(attempts),
        [encode_text(agent) for agent in agents],
        [encode_document(result) for result in results],
        *map(list, moments),
    ]
    return [list(ids), *map(compact_repeats, columns)]


def successes_to_rows(successes: Iterable[Success], now: datetime) -> Iterable[tuple[Any, ...]]:
    """The parameters of `succeed_job` of SQLite."""
    moment = SQLITE_CODEC.encode_moment
    for success in successes:
        yield (
            encode_text(success.agent_id),
            encode_document(success.result),
            moment(success.started_at),
            moment(success.finished_at),
            moment(now),
            str(success.job_id),
        )


def succeeded_from_rows(
    found: Iterable[Sequence[Any]],
    by_job: Mapping[UUID, Success],
    now: datetime,
    codec: ColumnCodec = POSTGRES_CODEC,
) -> dict[UUID, SucceededJob]:
    """The jobs whose SUCCEEDED_COLUMNS have these values; what stands behind them is left alone."""
    jobs: dict[UUID, SucceededJob] = {}
    for values in found:
        job_id = codec.decode_id(values[0])
        success = by_job[job_id]
        watchers = values[7]
        jobs[job_id] = SucceededJob(
            job_id,
            success.attempt,
            success.result,
            now,
            unescape(values[1]),
            decode_policy(values[2]),
            codec.decode_id(values[3]),
            decode_text(values[4]),
            decode_text(values[5]),
            codec.decode_moment(values[6]),
            () if watchers == "[]" else decode_texts(watchers),
        )
    return jobs
