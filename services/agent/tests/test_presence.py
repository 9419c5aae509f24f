"""When an agent says that it lives, on a clock of its own."""

import asyncio

from services.agent.tests.stage import Stage
from structlog.testing import capture_logs

from warrener_agent.gate import Gate
from warrener_agent.ledger import open_ledger
from warrener_agent.presence import Presence
from warrener_agent.running import Running
from warrener_agent.settings import AgentSettings
from warrener_agent.status_events import Speaker
from warrener_agent.workplace import Workplace
from warrener_contracts.events import AgentHeartbeat
from warrener_runtime.seeded_entropy import SeededEntropy
from warrener_runtime.virtual_clock import VirtualClock


def workplace(stage: Stage, clock: VirtualClock) -> Workplace:
    return Workplace(
        agent_id="ada",
        queues=("default",),
        bus=stage.bus,
        ledger=open_ledger(stage.ledger_url),
        clock=clock,
        entropy=SeededEntropy(1),
        settings=AgentSettings(agent_heartbeat=5.0),
        running=Running(1),
        gate=Gate({}),
        speaker=Speaker("ada"),
    )


async def deaf_beat(presence: Presence, clock: VirtualClock) -> list[str]:
    """A beat whose pulse does not come back; what was logged of it."""
    with capture_logs() as records:
        beat = asyncio.create_task(presence.beat())
        await clock.advance(5.0)
        await beat
    return [str(record["action"]) for record in records]


async def test_the_first_heartbeat_may_take_its_time_and_later_ones_may_not(stage: Stage) -> None:
    clock = VirtualClock()
    presence = Presence(workplace(stage, clock), lambda: True)
    await presence.beat()
    assert not stage.of(AgentHeartbeat), "nothing before all parts have started"

    presence.begin()
    assert await deaf_beat(presence, clock) == [], "the first pulse is on its way"
    assert not stage.of(AgentHeartbeat)

    beat = asyncio.create_task(presence.beat())
    await clock.settle()
    presence.heard()
    await beat
    await stage.hear(AgentHeartbeat)

    assert await deaf_beat(presence, clock) == ["agent.deaf"]


async def test_it_is_silent_from_a_heartbeat_that_could_not_be_sent_to_the_next_one(stage: Stage) -> None:
    clock = VirtualClock()
    presence = Presence(workplace(stage, clock), lambda: True)
    presence.begin()
    assert not presence.silent
    await deaf_beat(presence, clock)
    assert presence.silent
    beat = asyncio.create_task(presence.beat())
    await clock.settle()
    presence.heard()
    await beat
    assert not presence.silent


async def test_an_agent_that_is_deaf_from_the_start_says_so_in_the_end(stage: Stage) -> None:
    clock = VirtualClock()
    presence = Presence(workplace(stage, clock), lambda: True)
    presence.begin()
    said = [await deaf_beat(presence, clock) for _ in range(4)]
    assert said == [[], [], ["agent.deaf"], ["agent.deaf"]]
    assert not stage.of(AgentHeartbeat)
