"""The columns of jobs and attempts: the request is written once, the state at each change."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic_core import from_json

from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import JobState
from warrener_store import mapping
from warrener_store.encoding import ESCAPE, decode, unescape
from warrener_store.jobs.rows import (
    KEY_SCOPE,
    REQUEST_FIELDS,
    STATE_FIELDS,
    AttemptRow,
    JobRow,
    row_from_fields,
)
from warrener_store.jobs.unique import UniqueKeyRow
from warrener_store.jobs.views import (
    END_REASON,
    CancelledTree,
    CheckpointRow,
    ChildJob,
    FailedAttempt,
    SucceededJob,
    Success,
)

JOB_COLUMNS = (*REQUEST_FIELDS, *STATE_FIELDS)
"""The columns of a JobRow, in the order of `job_from_row` and `jobs_to_columns`."""
JOB = mapping.qualify("job", JOB_COLUMNS)
TEXTS = tuple(name for name in mapping.fields_of_type(JobRow, str) if name != "idempotency_key")
"""The columns that hold texts; those of ids and moments follow. The others are converted one by one."""
IDS = mapping.fields_of_type(JobRow, UUID)
MOMENTS = mapping.fields_of_type(JobRow, datetime)
MOSTLY_ONE = frozenset(
    """
    job_type queue guarantee policy source accepted_at version state attempt failures losses suspensions
    settled_attempt generation watchers wake_at dispatched_at updated_at
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""The columns of a new job that hold one value in nearly every batch: PostgreSQL's `insert_jobs` takes it
once."""
UNIQUE_KEYS = mapping.RowMapper(UniqueKeyRow)
_STATES = {state.value: state for state in JobState}
_GUARANTEES = {guarantee.value: guarantee for guarantee in Guarantee}


def job_from_row(values: Sequence[Any], codec: mapping.ColumnCodec) -> JobRow:
    """The row whose JOB_COLUMNS have these values; more values behind them are ignored.

    Thousands are read a second, so most columns are taken as they came, and only some are converted.
    """
    fields: dict[str, Any] = dict(zip(JOB_COLUMNS, values, strict=False))
    for name in TEXTS:
        text = fields[name]
        if text is not None and ESCAPE in text:
            fields[name] = unescape(text)
    if (key := fields["idempotency_key"]) is not None:
        fields["idempotency_key"] = unescape(key.partition(KEY_SCOPE)[0])
    if codec is not mapping.POSTGRES_CODEC:
        for name in IDS:
            fields[name] = codec.decode_id(fields[name])
        for name in MOMENTS:
            fields[name] = codec.decode_moment(fields[name])
    fields["arguments"] = decode(fields["arguments"])
    fields["guarantee"] = _GUARANTEES[fields["guarantee"]]
    fields["policy"] = mapping.decode_policy(fields["policy"])
    fields["state"] = _STATES[fields["state"]]
    if (ending := fields["ending"]) is not None:
        fields["ending"] = _STATES[ending]
    watchers = fields["watchers"]
    fields["watchers"] = () if watchers == "[]" else mapping.decode_texts(watchers)
    fields["result"] = mapping.decode_document(fields["result"])
    fields["error"] = mapping.decode_error(fields["error"])
    return row_from_fields(fields)


ATTEMPTS = mapping.RowMapper(AttemptRow)
CHECKPOINTS = mapping.RowMapper(CheckpointRow)
CANCELLED_TREES = mapping.RowMapper(CancelledTree)
CHILD_JOBS = mapping.RowMapper(ChildJob)


def failed_attempt(values: Sequence[Any], codec: mapping.ColumnCodec) -> FailedAttempt:
    """The attempt with these values of `failed_attempts`, which has the beginning of its error."""
    job_id, attempt, agent_id, started_at, finished_at, beginning, base_classes, verdict = values
    error = from_json(beginning, allow_partial="trailing-strings")
    return FailedAttempt(
        codec.decode_id(job_id),
        attempt,
        mapping.decode_text(agent_id),
        codec.decode_moment(started_at),
        codec.decode_moment(finished_at),
        error["kind"],
        error.get("type", ""),
        unescape(verdict),
        tuple(decode(base_classes or "[]")),
    )


SUCCEEDED_COLUMNS = (
    "job_id",
    "job_type",
    "policy",
    "parent_id",
    "traceparent",
    "tracestate",
    "requested_at",
    "watchers",
    "gates",
    "member_of",
    "source",
    "request_id",
)
"""The columns of a job that a success has ended, in the order of `succeeded_from_rows`."""
WORDS = {
    "job": JOB,
    "unique_key": mapping.qualify("held", UNIQUE_KEYS.columns),
    "succeeded": mapping.qualify("job", SUCCEEDED_COLUMNS),
    "of_end": f"1, {len(END_REASON)}) = '{END_REASON}'",
}


def succeeded_from_rows(
    found: Iterable[Sequence[Any]],
    by_job: Mapping[UUID, Success],
    now: datetime,
    codec: mapping.ColumnCodec = mapping.POSTGRES_CODEC,
) -> dict[UUID, SucceededJob]:
    """The jobs whose SUCCEEDED_COLUMNS, `waited_since` and `was_due_at` have these values; more values behind
    them are ignored."""
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
            mapping.decode_policy(values[2]),
            codec.decode_id(values[3]),
            mapping.decode_text(values[4]),
            mapping.decode_text(values[5]),
            codec.decode_moment(values[6]),
            () if watchers == "[]" else mapping.decode_texts(watchers),
            mapping.decode_text(values[8]),
            mapping.decode_text(values[9]),
            unescape(values[10]),
            mapping.decode_text(values[11]),
            codec.decode_moment(values[12]),
            codec.decode_moment(values[13]),
        )
    return jobs
