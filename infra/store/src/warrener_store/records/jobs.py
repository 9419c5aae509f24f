"""Jobs: what was asked for (written once) and what has become of them (written at each change)."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.policy import Guarantee
from warrener_contracts.states import JobState
from warrener_store.becoming import row_of
from warrener_store.encoding import ESCAPE, decode, unescape
from warrener_store.records.form import (
    NATIVE,
    Form,
    document_in,
    document_out,
    text_out,
    texts_in,
    texts_out,
)
from warrener_store.records.policies import error_in, error_out, policy_in
from warrener_store.rows import ASKED, AttemptRow, JobRow

BECOME = (
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

JOB_COLUMNS = (*ASKED, *BECOME)
"""The columns of a JobRow, in the order of `job_in` and of `new_jobs.columns_out`."""

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


def become_out(row: JobRow, form: Form) -> tuple[Any, ...]:
    """The values of BECOME."""
    moment = form.moment_out
    return (
        row.version,
        row.state.value,
        row.attempt,
        row.failures,
        row.losses,
        text_out(row.owner),
        texts_out(row.watchers) if row.watchers else "[]",
        text_out(row.cancel_reason),
        moment(row.due_at),
        moment(row.wake_at),
        moment(row.dispatched_at),
        moment(row.started_at),
        moment(row.lease_until),
        moment(row.finished_at),
        row.progress,
        text_out(row.progress_note),
        document_out(row.result),
        error_out(row.error),
        moment(row.updated_at),
    )


def ran_out(attempt: AttemptRow | None, form: Form) -> tuple[Any, Any]:
    """When the attempt ran that is kept in its job's row: `ran_from` and `ran_until`; None: there is none."""
    if attempt is None:
        return None, None
    return form.moment_out(attempt.started_at), form.moment_out(attempt.finished_at)


def job_in(values: Sequence[Any], form: Form) -> JobRow:
    """The row whose JOB_COLUMNS have these values; what stands behind them is left alone.

    Thousands are read a second, so most columns are taken as they came, and those that need it are looked at.
    """
    fields: dict[str, Any] = dict(zip(JOB_COLUMNS, values, strict=False))
    for name in TEXTS:
        text = fields[name]
        if text is not None and ESCAPE in text:
            fields[name] = unescape(text)
    if form is not NATIVE:
        for name in IDS:
            fields[name] = form.id_in(fields[name])
        for name in MOMENTS:
            fields[name] = form.moment_in(fields[name])
    fields["arguments"] = decode(fields["arguments"])
    fields["guarantee"] = _GUARANTEES[fields["guarantee"]]
    fields["policy"] = policy_in(fields["policy"])
    fields["state"] = _STATES[fields["state"]]
    watchers = fields["watchers"]
    fields["watchers"] = () if watchers == "[]" else texts_in(watchers)
    fields["result"] = document_in(fields["result"])
    fields["error"] = error_in(fields["error"])
    return row_of(fields)
