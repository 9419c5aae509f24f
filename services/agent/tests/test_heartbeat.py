"""The times at which an agent sends heartbeats, by a clock of its own."""

import asyncio
from dataclasses import replace
from uuid import UUID

from services.agent.tests.stage import Stage
from structlog.testing import capture_logs

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.breakers import BreakerFilter
from warrener_agent.heartbeat import Heartbeater
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import Claim
from warrener_agent.run_table import DeliveryRef, Run, RunTable
from warrener_agent.settings import AgentSettings
from warrener_agent.status_events import EventFactory
from warrener_contracts.events import AgentHeartbeat
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.telemetry import NO_CONTEXT
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock


def agent_context(stage: Stage, clock: VirtualClock) -> AgentContext:
    return AgentContext(
        agent_id="ada",
        holder_id="ada/1",
        queues=("default",),
        bus=stage.bus,
        ledger=open_ledger(stage.ledger_url),
        clock=clock,
        entropy=SeededEntropy(1),
        settings=AgentSettings(agent_heartbeat=5.0),
        running=RunTable(1),
        breaker_filter=BreakerFilter({}),
        event_factory=EventFactory("ada", SeededEntropy(1)),
    )


async def beat_without_pulse(heartbeater: Heartbeater, clock: VirtualClock) -> list[str]:
    """A beat whose pulse does not come back; what was logged of it."""
    with capture_logs() as records:
        beat = asyncio.create_task(heartbeater.send_heartbeat())
        await clock.advance(5.0)
        await beat
    return [str(record["action"]) for record in records]


async def test_the_first_heartbeat_may_take_its_time_and_later_ones_may_not(stage: Stage) -> None:
    clock = VirtualClock()
    heartbeater = Heartbeater(agent_context(stage, clock), lambda: True)
    await heartbeater.send_heartbeat()
    assert not stage.of(AgentHeartbeat), "nothing before all parts have started"
    heartbeater.begin()
    assert await beat_without_pulse(heartbeater, clock) == [], "the first pulse is on its way"
    assert not stage.of(AgentHeartbeat)
    beat = asyncio.create_task(heartbeater.send_heartbeat())
    await clock.settle()
    heartbeater.note_message()
    await beat
    await stage.wait_for_event(AgentHeartbeat)
    assert await beat_without_pulse(heartbeater, clock) == ["agent.stalled"]


async def test_it_is_silent_from_a_heartbeat_that_could_not_be_sent_to_the_next_one(stage: Stage) -> None:
    clock = VirtualClock()
    heartbeater = Heartbeater(agent_context(stage, clock), lambda: True)
    heartbeater.begin()
    assert not heartbeater.silent
    await beat_without_pulse(heartbeater, clock)
    assert heartbeater.silent
    beat = asyncio.create_task(heartbeater.send_heartbeat())
    await clock.settle()
    heartbeater.note_message()
    await beat
    assert not heartbeater.silent


async def test_without_a_connection_it_is_silent_after_one_interval(stage: Stage) -> None:
    """The bus itself waits for ten seconds."""
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    bus = MemoryBus(broker)
    await bus.start()
    heartbeater = Heartbeater(replace(agent_context(stage, clock), bus=bus), lambda: True)
    heartbeater.begin()
    broker.stop()
    beat = asyncio.create_task(heartbeater.send_heartbeat())
    await clock.advance(4.9)
    assert not heartbeater.silent
    await clock.advance(0.1)
    assert heartbeater.silent
    await beat
    await bus.close()


async def test_an_agent_that_receives_nothing_from_the_start_logs_it_in_the_end(stage: Stage) -> None:
    clock = VirtualClock()
    heartbeater = Heartbeater(agent_context(stage, clock), lambda: True)
    heartbeater.begin()
    actions = [await beat_without_pulse(heartbeater, clock) for _ in range(4)]
    assert actions == [[], [], ["agent.stalled"], ["agent.stalled"]]
    assert not stage.of(AgentHeartbeat)


async def test_an_attempt_is_listed_once_its_handler_or_its_report_takes_long(stage: Stage) -> None:
    clock = VirtualClock()
    context = agent_context(stage, clock)
    heartbeater = Heartbeater(context, lambda: True)
    heartbeater.begin()
    both = await stage.delivery()
    works, ended = (run_since_now(stage, clock, both) for _ in range(2))
    context.running.add(works)
    context.running.add(ended)
    await clock.advance(0.4)
    ended.handler_ended, ended.handler_ended_at = True, clock.monotonic()
    listed: list[set[UUID]] = []
    for number in range(1, 4):
        await heartbeater.send_requested_heartbeat()
        beat = await stage.wait_for_event(AgentHeartbeat, times=number)
        listed.append({one.job_id for one in beat.data.running})
        await clock.advance(0.3)
    assert listed == [set(), {works.data.job_id}, {works.data.job_id, ended.data.job_id}]


def run_since_now(stage: Stage, clock: VirtualClock, delivery_ref: DeliveryRef) -> Run:
    data, now = stage.dispatched("wait").data, clock.monotonic()
    return Run(data, Claim(data.job_id, 1), [delivery_ref], clock.now(), now, now + 60, NO_CONTEXT)


async def test_a_heartbeat_lists_types_free_slots_and_trouble(stage: Stage) -> None:
    clock = VirtualClock()
    trouble: list[str] = []
    heartbeater = Heartbeater(
        agent_context(stage, clock), lambda: True, ["b", "a"], lambda: next(iter(trouble), None)
    )
    heartbeater.begin()
    await heartbeater.send_requested_heartbeat()
    trouble.append("the ledger is locked")
    await heartbeater.send_requested_heartbeat()
    await stage.wait_for_event(AgentHeartbeat, times=2)
    first, second = (beat.data for beat in stage.of(AgentHeartbeat))
    assert (first.job_types, first.free_slots, first.trouble) == (("a", "b"), {"default": 1}, None)
    assert second.trouble == "the ledger is locked"


async def test_an_agent_with_very_many_types_lists_none(stage: Stage) -> None:
    many = [f"type.{number}" for number in range(501)]
    heartbeater = Heartbeater(agent_context(stage, VirtualClock()), lambda: True, many)
    heartbeater.begin()
    await heartbeater.send_requested_heartbeat()
    await stage.wait_for_event(AgentHeartbeat)
    assert [beat.data.job_types for beat in stage.of(AgentHeartbeat)] == [None]
