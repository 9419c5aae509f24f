"""A scheduler with its surroundings in memory, and builders of requests and commands."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from tests.captured_service import CapturedService, events_in
from tests.store_rows import succeeded

from warrener_contracts import events, topology
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message, build_message
from warrener_contracts.schedule_rules import IntervalRule, ScheduleChoices
from warrener_contracts.topology import Binding, Queue
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.wiring import assemble
from warrener_store.schedules.rows import TickRow

E = TypeVar("E", bound=events.Event[Any])
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "rows": {"type": "array", "items": {"type": "integer"}}},
    "required": ["path"],
    "additionalProperties": False,
}
SETTINGS = SchedulerSettings(
    scheduler_trigger_exchanges={"airport": ["#"]}, scheduler_queues=("la*", "loading")
)
_CAPTURE_QUEUES = (
    Queue("capture.events", (Binding(topology.EVENTS, "#"),)),
    Queue("capture.dispatch", (Binding(topology.DISPATCH, "default.#"),)),
    Queue("capture.commands", (Binding(topology.COMMANDS, "#"),)),
    Queue("capture.status", (Binding(topology.STATUS, "#"),)),
    Queue("capture.dead", (Binding(topology.DEAD, "#"),)),
)


class Stage(CapturedService):
    def __init__(self) -> None:
        super().__init__("warrener-scheduler", _CAPTURE_QUEUES, VirtualClock())
        self.component = assemble(
            self.bus, self.store, self.clock, SeededEntropy(1), self.telemetry, SETTINGS
        )

    async def open(self) -> None:
        await self.start()
        await self.send(build_message(announcement(declaration())))

    async def send(self, *messages: Message, then: float = 1.0) -> None:
        await self.publish(*messages, then=then)

    async def send_requests(self, *requests: events.JobRequested, then: float = 1.0) -> None:
        await self.send(*(build_message(request) for request in requests), then=then)

    async def send_raw(self, body: bytes | Mapping[str, Any] | list[Any], key: str = "flights.load") -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = BATCH_TYPE if isinstance(body, list) else EVENT_TYPE
        await self.send(Message(topology.REQUESTS, key, raw, kind, f"raw-{len(raw)}", "raw", {}))

    def answer(self, address: str, kind: type[E]) -> E:
        (event,) = self.answers(address)
        assert isinstance(event, kind)
        return event

    def all_of(self, kind: type[E]) -> list[E]:
        published = self.published(topology.EVENTS, topology.COMMANDS, topology.STATUS)
        return [event for event in published if isinstance(event, kind)]

    def answers(self, address: str) -> list[events.Event[Any]]:
        key = topology.reply_key(address)
        return events_in(one for one in self.received.get(topology.EVENTS, []) if one.routing_key == key)

    def dispatched(self) -> list[events.AttemptDispatched]:
        return [
            event
            for event in self.published(topology.DISPATCH)
            if isinstance(event, events.AttemptDispatched)
        ]

    def job_ids(self) -> list[UUID]:
        return [event.data.job_id for event in self.dispatched()]

    async def secret(self) -> str:
        """The secret of the installation, which a scheduler has made."""
        return await self.store.installation_secret(UUID(int=0), "none was made")

    async def tick_rows(self, name: str = "tick") -> list[TickRow]:
        return list(reversed(await self.store.ticks_of(name, 10_000)))

    async def statuses(self, name: str = "tick") -> list[str]:
        return [tick.status.value for tick in await self.tick_rows(name)]

    async def end_job(self, job_id: UUID) -> None:
        """Let it succeed, as a supervisor notes it."""
        await self.store.save_jobs([succeeded((await self.store.jobs_by_id([job_id]))[job_id])])

    def parked(self) -> list[tuple[str, bytes]]:
        return [
            (str(delivery.headers["warrener-reason"]), delivery.body)
            for delivery in self.received.get(topology.DEAD, [])
        ]

    def pending(self) -> int:
        return self.broker.ready(topology.REQUESTS_QUEUE.name)


def event(kind: type[E], event_id: str = "1", at: datetime | None = None, /, **data: Any) -> E:
    return kind.model_validate({"id": event_id, "source": "test", "time": at, "data": data})


def declaration(**changes: Any) -> events.JobTypeDeclaration:
    fields: dict[str, Any] = {"name": "flights.load", "arguments_schema": SCHEMA}
    return events.JobTypeDeclaration(**(fields | changes))


def announcement(
    *declared: events.JobTypeDeclaration, queues: tuple[str, ...] = ("default",)
) -> events.AgentAnnounced:
    data = events.AgentAnnouncedData(agent_id="agent-1", queues=queues, job_types=declared)
    return events.AgentAnnounced(id="announcement", source="agent-1", data=data)


def job_id(number: int) -> UUID:
    return UUID(int=0x01890000_0000_7000_8000_000000000000 + number)


def request(number: int = 1, trace: str | None = None, **changes: Any) -> events.JobRequested:
    fields: dict[str, Any] = {"job_type": "flights.load", "arguments": {"path": "a.csv"}}
    data = events.JobRequestedData(**(fields | changes))
    return events.JobRequested(id=str(job_id(number)), source="test", traceparent=trace, data=data)


# -- schedules ---------------------------------------------------------------------------------------------

SECOND = timedelta(seconds=1)
START = datetime.fromisoformat("2026-01-01T00:00:00Z")


def put(name: str = "tick", **choices: Any) -> events.SchedulePut:
    rule = choices.pop("rule", IntervalRule(every=SECOND))
    data = events.SchedulePutData(
        name=name,
        rule=rule,
        job_type="flights.load",
        arguments={"path": "a.csv"},
        timezone=choices.pop("timezone", "UTC"),
        choices=ScheduleChoices.model_validate(choices),
        reply_to="desk",
    )
    return events.SchedulePut(id=f"put-{name}", source="test", data=data)


def changed(event: events.Event[Any], **fields: Any) -> events.Event[Any]:
    return event.model_copy(update={"data": event.data.model_copy(update=fields)})


ScheduleCommandType = type[
    events.SchedulePauseRequested
    | events.ScheduleResumeRequested
    | events.ScheduleRemoveRequested
    | events.ScheduleTriggerRequested
]


def named(kind: ScheduleCommandType, name: str = "tick", event_id: str = "1") -> events.Event[Any]:
    return event(kind, event_id, name=name)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)
