"""One guest floods the services with what it may send; the services say so once, and work on."""

from datetime import timedelta

from services.scheduler.tests.stage import Stage, declaration
from services.supervisor.tests.stage import NOW, agent_row
from tests.security.attacks import attack

from warrener_contracts import events
from warrener_contracts.messages import build_message
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.incidents.rows import IncidentFilter
from warrener_store.memory import MemoryStore
from warrener_supervisor.agent_owners import MAX_AGENTS, AgentOwners
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.service_monitor import AlarmDetector, lost_incidents


@attack(
    "agent", "send heartbeats of 3,000 agents that do not exist", refused="supervisor: agents of one user"
)
async def test_a_user_has_a_limited_number_of_agents() -> None:
    store = MemoryStore()
    owners = AgentOwners(store, VirtualClock(NOW), None)
    ghosts = [agent_row(f"ghost-{number}", broker_user="mallory") for number in range(3_000)]
    real = agent_row("real", broker_user="cashier")
    counts = await owners.put([*ghosts, real], NOW)
    assert counts == [*[True] * MAX_AGENTS, *[False] * (3_000 - MAX_AGENTS), True]
    assert len(await store.agents()) == MAX_AGENTS + 1
    assert await owners.put([ghosts[0], ghosts[-1], real], NOW) == [True, False, True]


@attack("agent", "let 2,000 agents fall silent", refused="supervisor: 21 incidents at a look")
async def test_a_crowd_that_falls_silent_makes_few_incidents() -> None:
    detector = AlarmDetector(Timings())
    ghosts = [
        agent_row(f"ghost-{number}", queues=(f"gq-{number}",), running=1, last_seen_at=NOW)
        for number in range(2_000)
    ]
    detector.lost(ghosts, NOW)
    lost = detector.lost(ghosts, NOW + timedelta(seconds=60))
    assert len(lost) == 2_000
    assert len({one.fingerprint for one in lost_incidents(lost)}) == 21


@attack("agent", "announce 2,500 job types that do not count", refused="scheduler: 20 incidents, one line")
async def test_an_announcement_that_does_not_count_makes_few_incidents() -> None:
    stage = Stage()
    await stage.open()
    now = stage.clock.now()
    schemas: dict[str, dict[str, object]] = {"a": {}, "b": {"not": {}}}
    for agent_id, schema in schemas.items():
        started_at = now if agent_id == "a" else now - timedelta(days=1)
        declared = [declaration(name=f"f.t{number}", arguments_schema=schema) for number in range(2_500)]
        data = events.AgentAnnouncedData(
            agent_id=agent_id, queues=("default",), job_types=tuple(declared), started_at=started_at
        )
        await stage.send(
            build_message(events.AgentAnnounced(id=agent_id, source=agent_id, data=data)), then=6
        )
    assert len(await stage.store.escalations.incidents(IncidentFilter(limit=100))) == 20
    await stage.close()
