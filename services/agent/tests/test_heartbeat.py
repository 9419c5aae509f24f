"""The times at which an agent sends heartbeats, by a clock of its own."""

import asyncio

from services.agent.tests.stage import Stage
from structlog.testing import capture_logs

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.breakers import BreakerFilter
from warrener_agent.heartbeat import Heartbeater
from warrener_agent.ledger import open_ledger
from warrener_agent.run_table import RunTable
from warrener_agent.settings import AgentSettings
from warrener_agent.status_events import EventFactory
from warrener_contracts.events import AgentHeartbeat
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock


def agent_context(stage: Stage, clock: VirtualClock) -> AgentContext:
    return AgentContext(
        agent_id="ada",
        queues=("default",),
        bus=stage.bus,
        ledger=open_ledger(stage.ledger_url),
        clock=clock,
        entropy=SeededEntropy(1),
        settings=AgentSettings(agent_heartbeat=5.0),
        running=RunTable(1),
        breaker_filter=BreakerFilter({}),
        event_factory=EventFactory("ada"),
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


async def test_an_agent_that_receives_nothing_from_the_start_logs_it_in_the_end(stage: Stage) -> None:
    clock = VirtualClock()
    heartbeater = Heartbeater(agent_context(stage, clock), lambda: True)
    heartbeater.begin()
    actions = [await beat_without_pulse(heartbeater, clock) for _ in range(4)]
    assert actions == [[], [], ["agent.stalled"], ["agent.stalled"]]
    assert not stage.of(AgentHeartbeat)
