"""G9: each service may die, or be failed by its infrastructure, at any call it makes; nothing is lost or done
twice, each event has its tick, and no tick has two jobs."""

import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Literal
from uuid import UUID

import pytest
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.invariants import check, check_trees
from tests.simulation.workload import cancel_request, job_request
from tests.simulation.world import NOTES, World

from warrener_contracts.events import JobFinished, SchedulePut, SchedulePutData
from warrener_contracts.messages import EVENT_TYPE, Message, build_message
from warrener_contracts.schedule_rules import Rule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import TRIGGERS_QUEUE
from warrener_contracts.triggers import AfterRule, Condition, ConditionOperator, EventRule, Upstream

_ENOUGH = 800  # calls; each story makes fewer, and ends the count itself
_STRIDE = int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))  # `make test-crashes` strikes at every call


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("scheduler", "dies"),
        ("scheduler", "is failed"),
        ("supervisor", "dies"),
        ("supervisor", "is failed"),
        ("agent", "dies"),  # its own tests fail its ledger, which raises nothing but LedgerError
    ],
)
async def test_g9_a_process_is_struck_at_every_call_in_turn(
    kind: str, how: Literal["dies", "is failed"], *, effect_first: bool
) -> None:
    story = partial(_story, kind, how, effect_first=effect_first)
    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=_ENOUGH)


async def _story(kind: str, how: str, nth: int, *, effect_first: bool) -> bool:
    """Jobs of all kinds while the `nth` call goes wrong; whether it was made at all."""
    async with World(nth, schedulers=1, supervisors=1, agents=1, rests=(1.0,)) as world:
        life = world.process(kind).life
        life.strike_at(nth, effect_first=effect_first, deadly=how == "dies")
        jobs = [
            await _request(world, "flaky", failures=1),
            await _request(world, "doomed"),
            await _request(world, "parent", children=1),
            await _request(world, "quick", delay=2, number=1),
            await _request(world, "signals", how="to come again"),
            await _request(world, "signals", how="to be cancelled"),
            await _request(world, "signals", how="to be dead"),
            await _request(world, "climber"),
            await _request(world, "slow", seconds=30.0),
        ]
        root, unknown_job = await _request(world, "grower", left=20), world.entropy.new_id()
        await world.publish(cancel_request(unknown_job))
        at_once = await _request(world, "slow", seconds=30.0)
        await world.publish(cancel_request(at_once))
        await world.clock.advance(4)
        await world.publish(cancel_request(jobs[-1]), cancel_request(root, tree=True))
        await _request(world, "quick", job_id=unknown_job, number=7)
        await world.clock.run_until(
            lambda: world.settled() and {*jobs, root, unknown_job, at_once} <= world.store.jobs.keys(),
            within=400,
        )
        struck = life.struck
        await world.clock.advance(10)  # a failed batch waits for its next try
        await check(world, jobs)
        await check_trees(world, [root])
        states = [world.store.jobs[job_id].state for job_id in jobs]
        assert states[:4] == [JobState.SUCCEEDED, JobState.DEAD, JobState.SUCCEEDED, JobState.SUCCEEDED]
        assert states[4:7] == [JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD], "as they have asked"
        assert states[7] is JobState.SUCCEEDED, "it found its checkpoints"
        assert states[8] is JobState.CANCELLED
        assert sum(row.job_type == "grower" for row in world.store.jobs.values()) < 20, "cut short"
        assert world.store.jobs[unknown_job].state is JobState.CANCELLED
        assert world.store.jobs[at_once].state is JobState.CANCELLED
        assert not world.workshop.runs[unknown_job]
        answered = {event.data.job_id for event in world.published if isinstance(event, JobFinished)}
        assert answered >= {*jobs, unknown_job, at_once}
        return struck


async def _request(world: World, kind: str, *, job_id: UUID | None = None, **arguments: Any) -> UUID:
    job_id, delay = job_id or world.entropy.new_id(), arguments.pop("delay", None)
    request = job_request(job_id, kind, arguments=arguments, delay=delay, reply_to="asker")
    await world.publish(request)
    return job_id


_CALLS, _EACH = 48, 4  # so many calls; each of the four ways to go wrong has a quarter of them
_HOUR = timedelta(hours=1)
RULES: dict[str, Rule] = {
    "note": EventRule(
        exchange=NOTES, key="note.*", where=(Condition(path="data", check=ConditionOperator.MORE, value=0),)
    ),
    "burst": EventRule(exchange=NOTES, key="burst", debounce=timedelta(seconds=8)),
    "after": AfterRule(upstreams=(Upstream(schedule="note"),)),
    "all": AfterRule(upstreams=(Upstream(schedule="after"), Upstream(schedule="burst")), within=_HOUR),
}


@pytest.mark.parametrize("when", ["while they are put", "while events come"])
@pytest.mark.parametrize(
    ("how", "effect_first", "first"),
    [("dies", False, 0), ("dies", True, 1), ("is failed", False, 2), ("is failed", True, 3)],
)
async def test_g9_a_scheduler_is_struck_at_its_calls_in_turn(
    when: str, how: Literal["dies", "is failed"], first: int, *, effect_first: bool
) -> None:
    for nth in range(first, _CALLS, _EACH):
        async with World(nth, schedulers=1, supervisors=1, agents=1, rests=(0.5,)) as world:
            life = world.process("scheduler").life
            strike = partial(life.strike_at, nth, effect_first=effect_first, deadly=how == "dies")
            await _trigger_story(world, when, strike)
            if not life.struck:  # it makes fewer calls with an effect
                assert nth > first, "the story must make some calls"
                return


async def _trigger_story(world: World, when: str, strike: Callable[[], None]) -> None:
    """Events, told twice, and what follows from them."""
    if when == "while they are put":
        strike()
    await world.publish(*(build_message(_put(name, rule)) for name, rule in RULES.items()))
    await world.clock.advance(6)
    notes = [_note(number) for number in range(3)]
    bursts = [_note(number, "burst") for number in range(3, 6)]
    if when == "while events come":
        strike()
    await world.publish(*notes, *bursts)
    await world.publish(*notes, bursts[-1])
    await world.clock.advance(20)
    await world.clock.run_until(world.settled, within=400)

    await check(world, ())
    requested = Counter(row.source for row in world.store.jobs.values())
    expected = {"note": 2, "burst": 1, "after": 2, "all": 1}
    assert requested == {f"warrener/schedule/{name}": number for name, number in expected.items()}
    statuses = {name: await _statuses(world, name) for name in RULES}
    assert statuses["note"] == statuses["after"] == {"fired": 2}
    assert statuses["burst"] == {"fired": 1, "coalesced": 2}
    assert statuses["all"] == {"fired": 1, "coalesced": 1}
    assert world.broker.ready(TRIGGERS_QUEUE.name) == 0


async def _statuses(world: World, name: str) -> dict[str, int]:
    return Counter(tick.status.value for tick in await world.store.ticks_of(name, 100))


def _put(name: str, rule: Rule) -> SchedulePut:
    data = SchedulePutData(name=name, rule=rule, job_type="quick", arguments={"number": 1})
    return SchedulePut(id=f"put-{name}", source="story", data=data)


def _note(number: int, key: str = "note.x") -> Message:
    body = {"specversion": "1.0", "id": str(number), "source": "story", "type": "note", "data": number}
    return Message(
        NOTES, key, json.dumps(body).encode(), EVENT_TYPE, f"note-{number}", "", {}, mandatory=False
    )
