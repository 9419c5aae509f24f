"""What agents announce: job types and their own presence."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.policy import Guarantee
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.records.form import Form, document_in, document_out, texts_in, texts_out
from warrener_store.records.policies import policy_in, policy_out
from warrener_store.rows import AgentRow, JobTypeRow

JOB_TYPE_COLUMNS = (
    "name",
    "queue",
    "arguments_schema",
    "result_schema",
    "guarantee",
    "policy",
    "description",
    "announced_by",
    "announced_at",
)
AGENT_COLUMNS = (
    "agent_id",
    "host",
    "pid",
    "queues",
    "slots",
    "running",
    "draining",
    "started_at",
    "last_seen_at",
)


def job_type_out(row: JobTypeRow, form: Form) -> tuple[Any, ...]:
    """The values of JOB_TYPE_COLUMNS."""
    return (
        escape(row.name),
        escape(row.queue),
        encode(row.arguments_schema),
        document_out(row.result_schema),
        row.guarantee.value,
        policy_out(row.policy),
        escape(row.description),
        escape(row.announced_by),
        form.moment_out(row.announced_at),
    )


def job_type_in(values: Sequence[Any], form: Form) -> JobTypeRow:
    """The row whose JOB_TYPE_COLUMNS have these values."""
    return JobTypeRow(
        name=unescape(values[0]),
        queue=unescape(values[1]),
        arguments_schema=decode(values[2]),
        result_schema=document_in(values[3]),
        guarantee=Guarantee(values[4]),
        policy=policy_in(values[5]),
        description=unescape(values[6]),
        announced_by=unescape(values[7]),
        announced_at=form.moment_in(values[8]),
    )


def agent_out(row: AgentRow, form: Form) -> tuple[Any, ...]:
    """The values of AGENT_COLUMNS."""
    return (
        escape(row.agent_id),
        escape(row.host),
        row.pid,
        texts_out(row.queues),
        row.slots,
        row.running,
        row.draining,
        form.moment_out(row.started_at),
        form.moment_out(row.last_seen_at),
    )


def agent_in(values: Sequence[Any], form: Form) -> AgentRow:
    """The row whose AGENT_COLUMNS have these values."""
    return AgentRow(
        agent_id=unescape(values[0]),
        host=unescape(values[1]),
        pid=values[2],
        queues=texts_in(values[3]),
        slots=values[4],
        running=values[5],
        draining=bool(values[6]),
        started_at=form.moment_in(values[7]),
        last_seen_at=form.moment_in(values[8]),
    )
