"""What agents announce: job types and their own presence."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.policy import Guarantee
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.records.codec import (
    ColumnCodec,
    decode_document,
    decode_texts,
    encode_document,
    encode_texts,
)
from warrener_store.records.policies import decode_policy, encode_policy
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


def job_type_to_row(row: JobTypeRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of JOB_TYPE_COLUMNS."""
    return (
        escape(row.name),
        escape(row.queue),
        encode(row.arguments_schema),
        encode_document(row.result_schema),
        row.guarantee.value,
        encode_policy(row.policy),
        escape(row.description),
        escape(row.announced_by),
        codec.encode_moment(row.announced_at),
    )


def job_type_from_row(values: Sequence[Any], codec: ColumnCodec) -> JobTypeRow:
    """The row whose JOB_TYPE_COLUMNS have these values."""
    return JobTypeRow(
        name=unescape(values[0]),
        queue=unescape(values[1]),
        arguments_schema=decode(values[2]),
        result_schema=decode_document(values[3]),
        guarantee=Guarantee(values[4]),
        policy=decode_policy(values[5]),
        description=unescape(values[6]),
        announced_by=unescape(values[7]),
        announced_at=codec.decode_moment(values[8]),
    )


def agent_to_row(row: AgentRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of AGENT_COLUMNS."""
    return (
        escape(row.agent_id),
        escape(row.host),
        row.pid,
        encode_texts(row.queues),
        row.slots,
        row.running,
        row.draining,
        codec.encode_moment(row.started_at),
        codec.encode_moment(row.last_seen_at),
    )


def agent_from_row(values: Sequence[Any], codec: ColumnCodec) -> AgentRow:
    """The row whose AGENT_COLUMNS have these values."""
    return AgentRow(
        agent_id=unescape(values[0]),
        host=unescape(values[1]),
        pid=values[2],
        queues=decode_texts(values[3]),
        slots=values[4],
        running=values[5],
        draining=bool(values[6]),
        started_at=codec.decode_moment(values[7]),
        last_seen_at=codec.decode_moment(values[8]),
    )
