"""The two events of every tick, written as JSON without a model in between.

What they say was validated when the schedule was put, or is our own; `tests/test_tick_messages.py` holds
them, byte for byte, against the events as the contracts write them.
"""

from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

from pydantic_core import to_json

from warrener_contracts.events import JobRequested, JsonObject, SchedulePutData, ScheduleTicked
from warrener_contracts.registry import type_of
from warrener_scheduler.dispatch_messages import SOURCE
from warrener_store.schedules.rows import TickRow

REQUESTED = type_of(JobRequested)
TICKED = type_of(ScheduleTicked)
_JSON = '"datacontenttype":"application/json","data":{'


def requested_json(
    spec: SchedulePutData, source: str, job_id: UUID, moment: datetime, arguments: JsonObject
) -> str:
    """`job.requested` for one tick of a schedule, with these arguments."""
    return (
        f'{{"specversion":"1.0","id":"{job_id}","source":"{source}","type":"{REQUESTED}",'
        f'"time":{_moment(moment)},"subject":"{job_id}",{_JSON}"job_type":"{spec.job_type}",'
        f'"arguments":{to_json(arguments, inf_nan_mode="null").decode()}{_wanted(spec)}}}}}'
    )


def ticked_json(tick: TickRow, event_id: str) -> str:
    """`schedule.ticked`: what became of a tick."""
    job = "" if tick.job_id is None else f',"job_id":"{tick.job_id}"'
    late = max((tick.decided_at - tick.due_at).total_seconds(), 0.0)
    return (
        f'{{"specversion":"1.0","id":"{event_id}","source":"{SOURCE}","type":"{TICKED}",'
        f'"time":{_moment(tick.decided_at)},"subject":"{tick.schedule}",{_JSON}"name":"{tick.schedule}",'
        f'"nominal_at":{_moment(tick.nominal_at)},"fate":"{tick.fate.value}",'
        f'"reason":{to_json(tick.reason).decode()}{job},"late_seconds":{to_json(late).decode()}}}}}'
    )


def _wanted(spec: SchedulePutData) -> str:
    queue = "" if spec.queue is None else f',"queue":"{spec.queue}"'
    policy = "" if spec.policy is None else f',"policy":{spec.policy.model_dump_json(exclude_none=True)}'
    return queue + policy


@lru_cache(maxsize=8)  # of the ticks of one look, most have the same moments
def _moment(moment: datetime) -> str:
    return to_json(moment.astimezone(UTC)).decode()
