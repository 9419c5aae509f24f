"""G5 and G9: a scheduler may die, or be failed, at any call it makes while events come and jobs end; each of
these has its tick, and no tick has two jobs."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Literal

import pytest
from tests.simulation.invariants import check
from tests.simulation.world import World

from warrener_contracts.events import SchedulePut, SchedulePutData
from warrener_contracts.messages import EVENT_TYPE, Message, build_message
from warrener_contracts.schedule_rules import Rule
from warrener_contracts.topology import EVENTS, TRIGGERS_QUEUE
from warrener_contracts.triggers import AfterRule, Condition, ConditionOperator, EventRule, Upstream

_CALLS, _EACH = 48, 4  # so many calls; each of the four ways to go wrong has a quarter of them
_HOUR = timedelta(hours=1)
RULES: dict[str, Rule] = {
    "note": EventRule(key="note.*", where=(Condition(path="data", check=ConditionOperator.MORE, value=0),)),
    "burst": EventRule(key="burst", debounce=timedelta(seconds=8)),
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

            def strike(now: str, world: World = world, nth: int = nth) -> None:
                life = world.process("scheduler").life
                order = life.die_at if how == "dies" else life.fail_at
                if now == when:
                    order(nth, effect_first=effect_first)

            await _story(world, strike)


async def _story(world: World, strike: Callable[[str], None]) -> None:
    """Events, told twice, and what follows from them."""
    strike("while they are put")
    await world.publish(*(build_message(_put(name, rule)) for name, rule in RULES.items()))
    await world.clock.advance(6)
    notes = [_note(number) for number in range(3)]
    bursts = [_note(number, "burst") for number in range(3, 6)]
    strike("while events come")
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
        EVENTS, key, json.dumps(body).encode(), EVENT_TYPE, f"note-{number}", "", {}, mandatory=False
    )
