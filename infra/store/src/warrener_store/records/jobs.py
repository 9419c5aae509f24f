"""Jobs: what was asked for (written once) and what has become of them (written at each change)."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import JobState
from warrener_store.encoding import ESCAPE, decode, unescape
from warrener_store.job_row import row_from_fields
from warrener_store.records.codec import (
    POSTGRES_CODEC,
    ColumnCodec,
    decode_document,
    decode_texts,
    encode_document,
    encode_text,
    encode_texts,
)
from warrener_store.records.policies import decode_error, decode_policy, encode_error
from warrener_store.rows import REQUEST_FIELDS, AttemptRow, JobRow

STATE_FIELDS = (
    "version",
    "state",
    "attempt",
    "failures",
    "losses",
    "owner",
    "watchers",
    "cancel_reason",
    "due_at",
    "wake_at",
    "dispatched_at",
    "started_at",
    "lease_until",
    "finished_at",
    "progress",
    "progress_note",
    "result",
    "error",
    "updated_at",
)
"""The columns that a save writes."""

JOB_COLUMNS = (*REQUEST_FIELDS, *STATE_FIELDS)
"""The columns of a JobRow, in the order of `job_from_row` and of `new_jobs.jobs_to_columns`."""

TEXTS = (
    "job_type",
    "queue",
    "source",
    "idempotency_key",
    "traceparent",
    "tracestate",
    "fingerprint",
    "owner",
    "cancel_reason",
    "progress_note",
)
"""What the columns of JOB_COLUMNS hold: texts, ids, moments. The others are converted one by one."""
IDS = ("job_id", "parent_id")
MOMENTS = (
    "requested_at",
    "accepted_at",
    "deadline_at",
    "due_at",
    "wake_at",
    "dispatched_at",
    "started_at",
    "lease_until",
    "finished_at",
    "updated_at",
)

_STATES = {state.value: state for state in JobState}
_GUARANTEES = {guarantee.value: guarantee for guarantee in Guarantee}


def state_to_row(row: JobRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of STATE_FIELDS."""
    moment = codec.encode_moment
    return (
        row.version,
        row.state.value,
        row.attempt,
        row.failures,
        row.losses,
        encode_text(row.owner),
        encode_texts(row.watchers) if row.watchers else "[]",
        encode_text(row.cancel_reason),
        moment(row.due_at),
        moment(row.wake_at),
        moment(row.dispatched_at),
        moment(row.started_at),
        moment(row.lease_until),
        moment(row.finished_at),
        row.progress,
        encode_text(row.progress_note),
        encode_document(row.result),
        encode_error(row.error),
        moment(row.updated_at),
    )


def run_times_to_row(attempt: AttemptRow | None, codec: ColumnCodec) -> tuple[Any, Any]:
    """When the attempt ran that is kept in its job's row: `ran_from` and `ran_until`; None: there is none."""
    if attempt is None:
        return None, None
    return codec.encode_moment(attempt.started_at), codec.encode_moment(attempt.finished_at)


def job_from_row(values: Sequence[Any], codec: ColumnCodec) -> JobRow:
    """The row whose JOB_COLUMNS have these values; what stands behind them is left alone.

    Thousands are read a second, so most columns are taken as they came, and those that need it are looked at.
    """
    fields: dict[str, Any] = dict(zip(JOB_COLUMNS, values, strict=False))
    for name in TEXTS:
        text = fields[name]
        if text is not None and ESCAPE in text:
            fields[name] = unescape(text)
    if codec is not POSTGRES_CODEC:
        for name in IDS:
            fields[name] = codec.decode_id(fields[name])
        for name in MOMENTS:
            fields[name] = codec.decode_moment(fields[name])
    fields["arguments"] = decode(fields["arguments"])
    fields["guarantee"] = _GUARANTEES[fields["guarantee"]]
    fields["policy"] = decode_policy(fields["policy"])
    fields["state"] = _STATES[fields["state"]]
    watchers = fields["watchers"]
    fields["watchers"] = () if watchers == "[]" else decode_texts(watchers)
    fields["result"] = decode_document(fields["result"])
    fields["error"] = decode_error(fields["error"])
    return row_from_fields(fields)
