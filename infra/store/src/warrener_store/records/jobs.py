"""Jobs: what was asked for (written once) and what has become of them (written at each change)."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.policy import Guarantee
from warrener_contracts.states import JobState
from warrener_store.encoding import encode, escape, unescape
from warrener_store.records.form import (
    Form,
    document_in,
    document_out,
    text_in,
    text_out,
    texts_in,
    texts_out,
)
from warrener_store.records.policies import error_in, error_out, policy_in, policy_out
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
"""The columns of a JobRow, in the order of `job_in` and `job_out`."""

_STATES = {state.value: state for state in JobState}
_GUARANTEES = {guarantee.value: guarantee for guarantee in Guarantee}


def job_out(row: JobRow, form: Form) -> tuple[Any, ...]:
    """The values of JOB_COLUMNS."""
    return (*asked_out(row, form), *become_out(row, form))


def asked_out(row: JobRow, form: Form) -> tuple[Any, ...]:
    """The values of ASKED."""
    moment = form.moment_out
    return (
        form.id_out(row.job_id),
        escape(row.job_type),
        escape(row.queue),
        encode(row.arguments),
        row.guarantee.value,
        policy_out(row.policy),
        escape(row.source),
        text_out(row.idempotency_key),
        form.id_out(row.parent_id),
        text_out(row.traceparent),
        text_out(row.tracestate),
        moment(row.requested_at),
        moment(row.accepted_at),
        moment(row.deadline_at),
        escape(row.fingerprint),
    )


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
    """The row whose JOB_COLUMNS have these values; what stands behind them is left alone."""
    moment = form.moment_in
    return JobRow(
        job_id=form.id_in(values[0]),
        job_type=unescape(values[1]),
        queue=unescape(values[2]),
        arguments=document_in(values[3]),
        guarantee=_GUARANTEES[values[4]],
        policy=policy_in(values[5]),
        source=unescape(values[6]),
        idempotency_key=text_in(values[7]),
        parent_id=form.id_in(values[8]),
        traceparent=text_in(values[9]),
        tracestate=text_in(values[10]),
        requested_at=moment(values[11]),
        accepted_at=moment(values[12]),
        deadline_at=moment(values[13]),
        fingerprint=unescape(values[14]),
        version=values[15],
        state=_STATES[values[16]],
        attempt=values[17],
        failures=values[18],
        losses=values[19],
        owner=text_in(values[20]),
        watchers=() if values[21] == "[]" else texts_in(values[21]),
        cancel_reason=text_in(values[22]),
        due_at=moment(values[23]),
        wake_at=moment(values[24]),
        dispatched_at=moment(values[25]),
        started_at=moment(values[26]),
        lease_until=moment(values[27]),
        finished_at=moment(values[28]),
        progress=values[29],
        progress_note=text_in(values[30]),
        result=document_in(values[31]),
        error=error_in(values[32]),
        updated_at=moment(values[33]),
    )
