"""announce: what agents say they can run is kept, and their queues are made."""

from collections.abc import Sequence
from datetime import datetime

from warrener_contracts.events import AgentAnnounced, JobTypeDeclaration
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.publishing import declare_queues
from warrener_scheduler.schedules.code_schedules import CodeSchedules
from warrener_store.agents.rows import JobTypeRow
from warrener_store.store import StateStore

_log = get_logger("announce")


class AnnouncementHandler:
    """The verb for announcements; a repeat changes nothing."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock, code_schedules: CodeSchedules) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._code_schedules = code_schedules

    async def carry_out(self, events: Sequence[AgentAnnounced]) -> None:
        """Keep the job types, declare the queues and take up the schedules of these announcements."""
        if not events:
            return
        now = self._clock.now()
        await self._store.put_job_types([row for event in events for row in job_type_rows(event, now)])
        await declare_queues(self._bus, (queue for event in events for queue in _queues(event)))
        await self._code_schedules.carry_out(events)
        _log.info(
            "Agents announced what they can run.",
            action="announce.kept",
            agents=[event.data.agent_id for event in events],
            job_types=sorted(
                {declared_type.name for event in events for declared_type in event.data.job_types}
            ),
        )


def job_type_rows(event: AgentAnnounced, now: datetime) -> list[JobTypeRow]:
    """The rows of one announcement. Its own time orders it among others, but none is from the future."""
    announced_at = min(event.time or now, now)
    return [_row(declared, event.data.agent_id, announced_at) for declared in event.data.job_types]


def _row(declared: JobTypeDeclaration, agent_id: str, announced_at: datetime) -> JobTypeRow:
    return JobTypeRow(
        name=declared.name,
        queue=declared.queue,
        arguments_schema=declared.arguments_schema,
        result_schema=declared.result_schema,
        guarantee=declared.guarantee,
        policy=declared.policy,
        description=declared.description,
        announced_by=agent_id,
        announced_at=announced_at,
    )


def _queues(event: AgentAnnounced) -> list[str]:
    return [*event.data.queues, *(declared.queue for declared in event.data.job_types)]
