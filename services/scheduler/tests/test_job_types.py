"""Announcements: job types that are cached, and schedules that agents declare in their code."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import Stage, announcement, declaration, named, put
from tests.store_rows import agent_row, breaker_row, waiting_job

from warrener_contracts import events
from warrener_contracts.schedule_rules import CronRule, IntervalRule, ScheduleChoices
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import TOPOLOGY, dispatch_queue
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.virtual_clock import VirtualClock
from warrener_scheduler.job_types import JobTypeCache, KnownQueues, job_type_rows
from warrener_scheduler.schedules.writer import declaration_digest
from warrener_store.agents.rows import JobTypeRow
from warrener_store.memory import MemoryStore

LOAD = frozenset({"flights.load"})


class Library(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        self.reads += 1
        return await super().job_types(names)


async def test_hostile_names_of_queues_are_read_for_now_and_then_and_those_of_new_agents_are_known() -> None:
    library, clock, bus = Library(), VirtualClock(), MemoryBus(MemoryBroker(VirtualClock()))
    await bus.start()
    queues = KnownQueues(library, clock, bus, ["batch-*"])
    await announce(library, clock.now())
    assert await queues.find_unknown({None, "default", "batch-7"}) == {}
    reads = library.reads
    for number in range(100):
        assert [*await queues.find_unknown({f"guest-{number}", "default"})] == [f"guest-{number}"]
    assert library.reads == reads
    queues.add({"sums"})
    assert await queues.find_unknown({"sums"}) == {}, "an agent has just announced it"
    await library.put_agents([agent_row(queues=("beside", "ghost"))])
    await bus.declare(TOPOLOGY.with_queues([dispatch_queue("beside"), dispatch_queue("ghost")]))
    await bus.subscribe(dispatch_queue("beside").name, prefetch=1)
    await clock.advance(1)
    unknown = await queues.find_unknown({"beside", "sums", "batch"})
    assert "name none or one of batch-*, beside, default, sums; or" in unknown["batch"]
    assert len(unknown) == 1
    assert [*await queues.find_unknown({"ghost"})] == ["ghost"], "a heartbeat alone names it"
    await clock.advance(120)
    assert {*await queues.find_unknown({"sums", "guest-1"})} == {"sums", "guest-1"}, "no heartbeat has come"


async def announce(library: Library, at: datetime, queue: str = "default") -> None:
    rows = job_type_rows(announcement(declaration()), at)
    await library.put_job_types([replace(row, queue=queue, announced_at=at) for row in rows])


async def test_nobody_waits_for_the_store_and_what_is_not_used_lately_is_not_refreshed() -> None:
    library, clock = Library(), VirtualClock()
    types = JobTypeCache(library, clock)
    await announce(library, clock.now())
    await types.refresh()
    assert library.reads == 0
    await types.get_many(LOAD)
    for _ in range(60):
        await clock.advance(1)
        await types.refresh()
    await announce(library, clock.now(), queue="other")
    await types.refresh()
    reads = library.reads
    assert (await types.get_many(LOAD))["flights.load"].row.queue == "other"
    assert library.reads == reads
    await clock.advance(2)
    await announce(library, clock.now(), queue="third")
    assert (await types.get_many(LOAD))["flights.load"].row.queue == "third", "what is old is read again"
    reads = library.reads
    await clock.advance(3600)
    await types.refresh()
    assert library.reads == reads


async def test_a_look_does_not_bring_back_what_was_forgotten_meanwhile() -> None:
    clock = VirtualClock()

    class Slow(Library):
        """An agent announces something while the second answer is on its way."""

        async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
            found = await super().job_types(names)
            if self.reads == 2:
                await announce(self, clock.now(), queue="other")
                types.invalidate()
            return found

    library = Slow()
    types = JobTypeCache(library, clock)
    await announce(library, clock.now())
    await types.get_many(LOAD)
    await clock.advance(1)
    await types.refresh()
    assert (await types.get_many(LOAD))["flights.load"].row.queue == "other"


MINUTE = timedelta(minutes=1)


def declares(every: timedelta = MINUTE, revision: int = 0, **more: Any) -> events.ScheduleDeclaration:
    fields: dict[str, Any] = {"name": "tick", "rule": IntervalRule(every=every), "job_type": "flights.load"}
    return events.ScheduleDeclaration(schedule=events.SchedulePutData(**(fields | more)), revision=revision)


async def send_declared(stage: Stage, *schedules: events.ScheduleDeclaration, agent: str = "agent-1") -> None:
    data = events.AgentAnnouncedData(
        agent_id=agent, queues=("default",), job_types=(declaration(),), schedules=schedules
    )
    now = stage.clock.now()
    announced = events.AgentAnnounced(id=f"{agent}-{now.isoformat()}", source=agent, time=now, data=data)
    await stage.publish(announced, then=1)


CODE, CHANGED, REVISED = declares(), declares(2 * MINUTE), declares(revision=1)
HAND, REMOVE = put(rule=IntervalRule(every=9 * MINUTE)), named(events.ScheduleRemoveRequested)


@pytest.mark.parametrize(
    ("steps", "minutes"),
    [
        pytest.param([CODE, CHANGED], 2, id="what changes in the code changes the schedule"),
        pytest.param([CODE, *[CHANGED, CODE] * 3], 2, id="two releases in turns change nothing"),
        pytest.param([CODE, CHANGED, REVISED], 1, id="an earlier one is new in another edition"),
        pytest.param([CODE, HAND, CODE, CHANGED], 9, id="an operator's put is left alone"),
        pytest.param([CODE, REMOVE, CODE], None, id="what an operator has removed stays removed"),
        pytest.param([CODE, REMOVE, CODE, CHANGED], 2, id="until the code changes"),
        pytest.param([HAND, CODE], 9, id="what an operator has put before is left alone"),
        pytest.param([HAND, CODE, REMOVE, CODE], 1, id="once that is gone the code has its turn"),
    ],
)
async def test_code_and_operator_take_turns(
    stage: Stage, steps: list[events.ScheduleDeclaration | events.Event[Any]], minutes: int | None
) -> None:
    for step in steps:
        if isinstance(step, events.ScheduleDeclaration):
            await send_declared(stage, step, agent="new" if step is CHANGED else "old")
        else:
            await stage.publish(step)
    rows = await stage.store.schedules()
    rules = [row.definition.rule for row in rows.values()]
    assert rules == ([] if minutes is None else [IntervalRule(every=minutes * MINUTE)])


async def test_an_operators_pause_survives_restarts_and_changes_of_the_code(stage: Stage) -> None:
    await send_declared(stage, declares())
    await stage.publish(named(events.SchedulePauseRequested))
    await send_declared(stage, declares())
    await send_declared(stage, declares(2 * MINUTE))
    assert (await stage.store.schedules())["tick"].paused


async def test_a_declaration_ticks_though_another_is_refused_and_goes_on_when_it_has_vanished(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    never = declares(name="never", rule=CronRule(expression="0 0 31 2 *"))
    await send_declared(stage, never, declares())
    assert set(await stage.store.schedules()) == {"tick"}
    assert (await stage.store.schedules())["tick"].definition.owner == "code"
    await send_declared(stage)
    assert "schedules.vanished" in "".join(capsys.readouterr())
    await stage.clock.advance(120)
    assert await stage.store.ticks_of("tick") != []


def test_defaults_and_the_owner_do_not_change_the_digest_and_all_else_does() -> None:
    alike = [
        declares(),
        declares(choices=ScheduleChoices(overlap=OverlapPolicy.ALLOW)),
        declares(owner="someone", reply_to="desk"),
    ]
    others = [
        declares(revision=1),
        declares(2 * MINUTE),
        declares(arguments={"path": "b.csv"}),
        declares(timezone="Europe/Berlin"),
        declares(choices=ScheduleChoices(overlap=OverlapPolicy.SKIP)),
    ]
    assert len(set(map(declaration_digest, alike))) == 1
    assert len(set(map(declaration_digest, [*alike, *others]))) == 1 + len(others)


async def test_an_announcement_wakes_the_held_jobs_of_its_types_but_for_those_of_a_paused_queue(
    stage: Stage,
) -> None:
    now = stage.clock.now()
    await stage.store.put_breaker(breaker_row("queue:default", since=now, until=None, manual=True))
    later = now + timedelta(minutes=10)
    rows = [waiting_job(queue=queue, due_at=now, wake_at=later) for queue in ("default", "other")]
    await stage.store.insert_jobs(rows)
    await stage.clock.advance(2)  # the scheduler reads breakers each second
    await send_declared(stage)
    await stage.clock.advance(2)
    found = await stage.store.jobs_by_id([row.job_id for row in rows])
    assert [found[row.job_id].state for row in rows] == [JobState.WAITING, JobState.QUEUED]


def announced(
    queue: str = "default", started_at: datetime | None = None, **more: Any
) -> events.AgentAnnounced:
    data = events.AgentAnnouncedData(
        agent_id="agent-1",
        queues=(queue,),
        job_types=(declaration(queue=queue),),
        started_at=started_at,
        **more,
    )
    return events.AgentAnnounced(id=f"{queue} {started_at}", source="agent-1", data=data)


async def test_a_rollback_counts_as_it_starts_later_and_a_late_announcement_of_the_newer_edition_does_not(
    stage: Stage,
) -> None:
    now = stage.clock.now()
    newer, older = announced("new", now), announced("old", now + timedelta(seconds=5))
    queues: list[str] = []
    for event in (newer, older, newer):
        await stage.publish(event, then=6)
        queues.append((await stage.store.job_types())["flights.load"].queue)
    assert queues == ["new", "old", "old"]
    [incident] = await stage.store.escalations.incidents()
    assert (incident.kind, incident.subject) == ("job_type.conflict", "flights.load")
    assert "agent agent-1 (user unknown)" in str(incident.sample["text"])
