"""The dead-man alarm (point 6) and the pause after failures (point 2), by supervisors in memory."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from services.supervisor.tests.stage import Stage
from services.supervisor.tests.test_schedule_troubles import at, schedule

from warrener_contracts import topology
from warrener_contracts.events import SchedulePauseRequested, TickStatus
from warrener_contracts.states import JobState
from warrener_contracts.topology import Binding, Queue, Topology
from warrener_contracts.triggers import EventRule
from warrener_runtime.bus.memory import MemoryBus
from warrener_store.escalations import CaseRow
from warrener_store.schedules.rows import TickRow
from warrener_store.schedules.watches import WatchRow
from warrener_store.testing import running_job
from warrener_supervisor.escalation.intake import Intake
from warrener_supervisor.rules import Rules
from warrener_supervisor.schedules.watch import ScheduleWatch

_EAR = Queue("ear.requests", (Binding(topology.REQUESTS, "#"),))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A supervisor that runs; a scheduler seems to be there, unless `scheduler` is closed."""
    stage = Stage()
    await stage.open()
    await stage.bus.declare(Topology((), (_EAR,)))
    yield stage
    await stage.close()


@pytest.fixture
async def scheduler(stage: Stage) -> AsyncIterator[MemoryBus]:
    """Somebody consumes requests."""
    bus = MemoryBus(stage.broker, name="scheduler")
    await bus.start()
    await bus.subscribe(topology.REQUESTS_QUEUE.name, prefetch=1)
    yield bus
    await bus.close()


async def cases(stage: Stage, *, closed: bool = False) -> dict[str, CaseRow]:
    return {case.fingerprint: case for case in await stage.store.escalations.cases(closed=closed)}


async def ran(stage: Stage, seconds: float, state: JobState, name: str = "hourly") -> None:
    """A tick whose job has come to this end."""
    job_id = uuid4()
    job = replace(running_job(job_id=job_id), state=state, wake_at=None, finished_at=at(seconds + 1))
    await stage.store.insert_jobs([replace(job, version=2)])
    moment = at(seconds)
    await stage.store.add_ticks(
        [
            TickRow(
                schedule=name,
                nominal_at=moment,
                fate=TickStatus.FIRED,
                due_at=moment,
                decided_at=moment,
                job_id=job_id,
                fired_at=moment,
            )
        ]
    )


async def expect(stage: Stage, **expected: Any) -> None:
    await stage.store.put_schedules([schedule(due=1e6)])
    await stage.store.put_watches([WatchRow(name="hourly", since=at(-1), look_at=at(0), **expected)], [])


@pytest.mark.usefixtures("scheduler")
class TestOverdue:
    async def test_6_a_schedule_that_does_not_tick_is_a_case_until_it_does(self, stage: Stage) -> None:
        await stage.store.put_schedules([schedule(), schedule("fine", 1e6)])
        await stage.clock.advance(60)
        (case,) = (await cases(stage)).values()
        assert (case.fingerprint, case.kind) == ("schedule.overdue:hourly", "schedule.overdue")
        assert (case.subject, case.job_type, case.times) == ("hourly", "flights.load", 1)
        assert "schedule hourly has not ticked" in case.sample["text"]
        assert "schedulers are there (1): their logs say why" in case.sample["text"]

        await stage.store.remove_schedules(["hourly"], stage.clock.now())
        await stage.clock.advance(10)
        assert await cases(stage) == {}
        assert (await cases(stage, closed=True))[case.fingerprint].closed_why == "it ticks again"

    async def test_6_it_is_told_anew_when_it_happens_anew(self, stage: Stage) -> None:
        await stage.store.put_schedules([schedule()])
        await stage.clock.advance(60)
        later = replace(schedule(due=60), put_at=at(1), asked=schedule(grace=11).asked)
        await stage.store.put_schedules([later])
        await stage.clock.advance(10)
        assert await cases(stage) == {}
        await stage.clock.advance(60)
        assert (await cases(stage))["schedule.overdue:hourly"].round == 2

    async def test_6_one_that_is_overdue_when_all_begin_is_given_time(self, stage: Stage) -> None:
        await stage.store.put_schedules([schedule(due=-3600)])
        await stage.clock.advance(8)
        assert await cases(stage) == {}
        await stage.clock.advance(10)
        assert len(await cases(stage)) == 1

    async def test_6_many_at_once_are_one_case(self, stage: Stage) -> None:
        await stage.store.put_schedules([schedule(f"s{n}") for n in range(100)])
        await stage.clock.advance(60)
        assert [*await cases(stage)] == ["schedule.overdue"]
        await stage.store.remove_schedules([f"s{n}" for n in range(100)], stage.clock.now())
        await stage.clock.advance(10)
        assert await cases(stage) == {}

    async def test_6_two_supervisors_raise_and_close_one_case(self, stage: Stage) -> None:
        await second_supervisor(stage)
        await stage.store.put_schedules([schedule()])
        await stage.clock.advance(60)
        assert [case.times for case in (await cases(stage)).values()] == [1]


async def second_supervisor(stage: Stage) -> None:
    """A watch of another one, that looks once now and is then left alone by the tests' clock."""
    intake = Intake(stage.store.escalations, stage.clock)
    other = ScheduleWatch(stage.bus, stage.store, stage.clock, rules=Rules(), intake=intake)
    await other.look()


class TestStopped:
    async def test_6_schedulers_that_have_all_stopped_are_one_case_and_no_schedule_is_blamed(
        self, stage: Stage, scheduler: MemoryBus
    ) -> None:
        await stage.store.put_schedules([schedule(f"s{n}", n) for n in range(30)])
        await scheduler.close()
        await stage.clock.advance(120)
        (case,) = (await cases(stage)).values()
        assert (case.fingerprint, case.times) == ("scheduler.stopped", 1)
        assert "no scheduler has been there since" in case.sample["text"]

        again = MemoryBus(stage.broker, name="scheduler")
        await again.start()
        await again.subscribe(topology.REQUESTS_QUEUE.name, prefetch=1)
        await stage.clock.advance(8)
        found = await cases(stage, closed=True)
        assert found["scheduler.stopped"].closed_why == "a scheduler is there again"
        assert await cases(stage) == {}, "it has hardly begun to catch up"
        await stage.clock.advance(20)
        assert [*await cases(stage)] == ["schedule.overdue"], "it does not"
        await again.close()

    async def test_6_a_scheduler_is_missed_where_all_schedules_wait_for_events(self, stage: Stage) -> None:
        row = schedule(due=None)
        asked = row.asked.model_copy(update={"rule": EventRule(key="landed")})
        await stage.store.put_schedules([replace(row, asked=asked)])
        await stage.clock.advance(60)
        assert [*await cases(stage)] == ["scheduler.stopped"]

    async def test_6_without_a_schedule_no_scheduler_is_missed(self, stage: Stage) -> None:
        await stage.clock.advance(120)
        assert await cases(stage) == {}

    async def test_6_a_supervisor_that_is_started_later_closes_what_another_has_raised(
        self, stage: Stage, scheduler: MemoryBus
    ) -> None:
        await stage.store.put_schedules([schedule()])
        await stage.clock.advance(60)
        await stage.component.stop()
        await stage.store.remove_schedules(["hourly"], stage.clock.now())
        assert len(await cases(stage)) == 1
        await second_supervisor(stage)
        assert await cases(stage) == {}


@pytest.mark.usefixtures("scheduler")
class TestSuccess:
    async def test_6_a_schedule_without_success_is_a_case_until_a_job_succeeds(self, stage: Stage) -> None:
        await expect(stage, success_within=timedelta(seconds=60))
        await ran(stage, 1, JobState.DEAD)
        await stage.clock.advance(70)
        (case,) = (await cases(stage)).values()
        assert (case.fingerprint, case.times) == ("schedule.unsuccessful:hourly", 1)
        assert case.job_type == "flights.load"
        assert case.sample["text"].endswith("; its last job is dead")
        await ran(stage, 70, JobState.SUCCEEDED)
        await stage.clock.advance(20)
        assert await cases(stage) == {}

    async def test_6_of_a_schedule_that_is_over_no_more_is_expected_than_that_its_last_job_succeeds(
        self, stage: Stage
    ) -> None:
        for name in ("hourly", "done"):
            await stage.store.put_schedules([schedule(name, due=None, expect_success_within=60)])
            expected = WatchRow(name=name, since=at(-1), look_at=at(0), success_within=timedelta(seconds=60))
            await stage.store.put_watches([expected], [])
        await ran(stage, 1, JobState.SUCCEEDED, "done")
        await ran(stage, 1, JobState.DEAD)
        await stage.clock.advance(600)
        assert [*await cases(stage)] == ["schedule.unsuccessful:hourly"]

    async def test_6_what_nobody_expects_any_more_is_closed(self, stage: Stage) -> None:
        await expect(stage, success_within=timedelta(seconds=60))
        await stage.clock.advance(70)
        assert len(await cases(stage)) == 1
        await stage.store.remove_schedules(["hourly"], stage.clock.now())
        await stage.clock.advance(400)
        assert await cases(stage) == {}


def pauses(stage: Stage) -> list[SchedulePauseRequested]:
    told = stage.told(topology.REQUESTS)
    return [event for event in told if isinstance(event, SchedulePauseRequested)]


@pytest.mark.usefixtures("scheduler")
class TestFailures:
    async def test_2_a_schedule_whose_last_jobs_have_failed_is_asked_to_pause_and_is_a_case(
        self, stage: Stage
    ) -> None:
        await stage.bus.listen(_EAR.name, stage._hear)
        await expect(stage, pause_after=3)
        for seconds in (1, 2):
            await ran(stage, seconds, JobState.DEAD)
        await stage.clock.advance(10)
        assert pauses(stage) == []
        await ran(stage, 3, JobState.DEAD)
        await stage.clock.advance(5)
        (pause,) = pauses(stage)
        assert (pause.data.name, pause.data.reason) == ("hourly", "its last 3 jobs have failed")
        (case,) = (await cases(stage)).values()
        assert case.fingerprint == "schedule.paused:hourly"

        await stage.store.pause_schedules(["hourly"], paused=True, why=pause.data.reason)
        await stage.clock.advance(60)
        assert [one.id for one in pauses(stage)] == [pause.id], "nobody asks for it again"
        assert len(await cases(stage)) == 1
        await stage.store.pause_schedules(["hourly"], paused=False)
        await stage.store.restart_watches(["hourly"], stage.clock.now())
        await stage.clock.advance(10)
        assert await cases(stage) == {}, "it was resumed"
