"""What a tick asks for: as text that the ledger keeps until the broker has confirmed it, and as letters."""

from datetime import datetime
from uuid import UUID, uuid5

from warrener_contracts.codec import Readable, decode
from warrener_contracts.events import (
    JobCancelRequested,
    JobCancelRequestedData,
    JobRequested,
    JobRequestedData,
    SchedulePutData,
    ScheduleTicked,
    ScheduleTickedData,
)
from warrener_contracts.events.fields import JsonObject
from warrener_contracts.letters import BATCH_TYPE, Letter, encode, letter_for
from warrener_contracts.rules import Rule
from warrener_contracts.triggers import TriggerRule
from warrener_scheduler.dispatch_letters import SOURCE
from warrener_store.schedules.rows import TickRow


def source_of(schedule: str) -> str:
    """Who asks for the jobs of a schedule."""
    return f"warrener/schedule/{schedule}"


def request_text(
    asked: SchedulePutData,
    job_id: UUID,
    now: datetime,
    cancelled: UUID | None = None,
    *,
    event: JsonObject | None = None,
) -> str:
    """A CloudEvents batch: the request for one job, behind the one to cancel another if there is any.
    `event`: what has started it, where something has."""
    source = source_of(asked.name)
    request = JobRequested.model_construct(
        id=str(job_id),
        source=source,
        time=now,
        subject=str(job_id),
        data=JobRequestedData.model_construct(
            job_type=asked.job_type,
            arguments=asked.arguments | _said(asked.rule, event),
            queue=asked.queue,
            policy=asked.policy,
        ),
    )
    text = encode(request).decode()
    if cancelled is None:
        return f"[{text}]"
    cancel = JobCancelRequested(
        id=str(uuid5(cancelled, str(job_id))),
        source=source,
        time=now,
        subject=str(cancelled),
        data=JobCancelRequestedData(job_id=cancelled, reason=f"the next tick of {asked.name} is due"),
    )
    return f"[{encode(cancel).decode()},{text}]"


def _said(rule: Rule, event: JsonObject | None) -> JsonObject:
    """The argument in which the job gets its event, if it is to."""
    if event is None or not isinstance(rule, TriggerRule) or rule.event_as is None:
        return {}
    return {rule.event_as: event}


def request_letters(tick: TickRow) -> list[Letter]:
    """The requests of a tick, ready to be published; the same whenever they are published again."""
    found = decode((tick.request or "[]").encode(), BATCH_TYPE)
    return [letter_for(one.event) for one in found if isinstance(one, Readable)]


def ticked_letter(tick: TickRow) -> Letter:
    """What became of a tick, for whoever listens."""
    event = ScheduleTicked(
        id=f"{tick.schedule}:{tick.nominal_at.isoformat()}:{tick.fate}",
        source=SOURCE,
        time=tick.decided_at,
        subject=tick.schedule,
        data=ScheduleTickedData(
            name=tick.schedule,
            nominal_at=tick.nominal_at,
            fate=tick.fate,
            reason=tick.reason,
            job_id=tick.job_id,
            late_seconds=(tick.decided_at - tick.due_at).total_seconds(),
        ),
    )
    return letter_for(event)
