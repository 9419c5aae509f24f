"""The dead-man alarm (point 6) and the pause after failures (point 2), by supervisors in memory."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from services.supervisor.tests.decisions.test_schedule_health import at, schedule
from services.supervisor.tests.harness import SupervisorHarness
from tests.store_rows import running_job, tick_row

from warrener_contracts import topology
from warrener_contracts.events import SchedulePauseRequested, TickStatus
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import Binding, Queue, Topology
from warrener_contracts.triggers import EventRule
from warrener_runtime.bus.memory import MemoryBus
from warrener_runtime.lifecycle.listener import Listener
from warrener_store.incidents.rows import IncidentFilter, IncidentRow
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.schedule_monitor import ScheduleMonitor

_RECORDING_QUEUE = Queue("ear.commands", (Binding(topology.COMMANDS, "schedule.#"),))


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    """A supervisor that runs; a scheduler seems to be there, unless `scheduler` is closed."""
    harness = SupervisorHarness()
    await harness.open()
    await harness.bus.declare(Topology((), (_RECORDING_QUEUE,)))
    yield harness
    await harness.close()


@pytest.fixture
async def scheduler(harness: SupervisorHarness) -> AsyncIterator[MemoryBus]:
    """Somebody consumes requests and commands."""
    bus = MemoryBus(harness.broker, name="scheduler")
    await bus.start()
    for queue in (topology.REQUESTS_QUEUE, topology.SCHEDULER_COMMANDS):
        await bus.subscribe(queue.name, prefetch=1)
    yield bus
    await bus.close()


async def incidents(harness: SupervisorHarness, *, closed: bool = False) -> dict[str, IncidentRow]:
    return {
        incident.fingerprint: incident
        for incident in await harness.store.escalations.incidents(IncidentFilter(closed=closed))
    }


async def ran(harness: SupervisorHarness, seconds: float, state: JobState, name: str = "hourly") -> None:
    """A tick whose job has come to this end."""
    job_id = uuid4()
    job = replace(running_job(job_id=job_id), state=state, wake_at=None, finished_at=at(seconds + 1))
    await harness.store.insert_jobs([replace(job, version=2)])
    fired = tick_row(name, at(seconds), TickStatus.FIRED, job_id=job_id, fired_at=at(seconds))
    await harness.store.add_ticks([fired])


async def expect(harness: SupervisorHarness, **expected: Any) -> None:
    await harness.store.put_schedules([schedule(due=1e6, **expected)])


@pytest.mark.usefixtures("scheduler")
class TestOverdue:
    async def test_6_a_schedule_that_does_not_tick_is_an_incident_until_it_does(
        self, harness: SupervisorHarness
    ) -> None:
        await harness.store.put_schedules([schedule(), schedule("fine", 1e6)])
        await harness.clock.advance(60)
        (incident,) = (await incidents(harness)).values()
        assert (incident.fingerprint, incident.kind) == ("schedule.overdue:hourly", "schedule.overdue")
        assert (incident.subject, incident.job_type, incident.times) == ("hourly", "flights.load", 1)
        assert "schedule hourly has not ticked" in incident.sample["text"]
        assert "schedulers are there (1): their logs say why" in incident.sample["text"]
        await harness.store.remove_schedules(["hourly"], harness.clock.now())
        await harness.clock.advance(10)
        assert await incidents(harness) == {}
        assert (await incidents(harness, closed=True))[incident.fingerprint].close_reason == "it ticks again"

    async def test_6_it_is_raised_again_when_it_happens_again(self, harness: SupervisorHarness) -> None:
        await harness.store.put_schedules([schedule()])
        await harness.clock.advance(60)
        later = replace(schedule(due=60), put_at=at(1), definition=schedule(grace=11).definition)
        await harness.store.put_schedules([later])
        await harness.clock.advance(10)
        assert await incidents(harness) == {}
        await harness.clock.advance(60)
        assert (await incidents(harness))["schedule.overdue:hourly"].round == 2

    async def test_6_one_that_is_overdue_when_all_begin_is_given_time(
        self, harness: SupervisorHarness
    ) -> None:
        await harness.store.put_schedules([schedule(due=-3600)])
        await harness.clock.advance(8)
        assert await incidents(harness) == {}
        await harness.clock.advance(10)
        assert len(await incidents(harness)) == 1

    async def test_6_two_supervisors_raise_and_close_one_incident(self, harness: SupervisorHarness) -> None:
        await second_supervisor(harness)
        await harness.store.put_schedules([schedule()])
        await harness.clock.advance(60)
        assert [incident.times for incident in (await incidents(harness)).values()] == [1]


async def second_supervisor(harness: SupervisorHarness) -> None:
    """A watch of another one, that looks once now and is then left alone by the tests' clock."""
    reporter = IncidentReporter(harness.store.escalations, harness.clock)
    ports = SupervisorPorts(harness.bus, harness.store, harness.clock, Timings())
    await ScheduleMonitor(ports, reporter).run_once()


class TestStopped:
    async def test_6_schedulers_that_have_all_stopped_are_one_incident_and_no_schedule_is_blamed(
        self, harness: SupervisorHarness, scheduler: MemoryBus
    ) -> None:
        await harness.store.put_schedules([schedule(f"s{n}", n) for n in range(30)])
        await scheduler.close()
        await harness.clock.advance(120)
        (incident,) = (await incidents(harness)).values()
        assert (incident.fingerprint, incident.times) == ("scheduler.stopped", 1)
        assert "no scheduler has been there since" in incident.sample["text"]
        again = MemoryBus(harness.broker, name="scheduler")
        await again.start()
        await again.subscribe(topology.REQUESTS_QUEUE.name, prefetch=1)
        await harness.clock.advance(8)
        found = await incidents(harness, closed=True)
        assert found["scheduler.stopped"].close_reason == "a scheduler is there again"
        assert await incidents(harness) == {}, "it has hardly begun to catch up"
        await harness.clock.advance(20)
        assert [*await incidents(harness)] == ["schedule.overdue"], "it does not"
        await again.close()

    async def test_6_a_scheduler_is_missed_where_all_schedules_wait_for_events(
        self, harness: SupervisorHarness
    ) -> None:
        row = schedule(due=None)
        changed = row.definition.model_copy(update={"rule": EventRule(key="landed")})
        await harness.store.put_schedules([replace(row, definition=changed)])
        await harness.clock.advance(60)
        assert [*await incidents(harness)] == ["scheduler.stopped"]

    async def test_6_without_a_schedule_no_scheduler_is_missed(self, harness: SupervisorHarness) -> None:
        await harness.clock.advance(120)
        assert await incidents(harness) == {}

    async def test_6_a_supervisor_that_is_started_later_closes_what_another_has_raised(
        self, harness: SupervisorHarness, scheduler: MemoryBus
    ) -> None:
        await harness.store.put_schedules([schedule()])
        await harness.clock.advance(60)
        await harness.component.stop()
        await harness.store.remove_schedules(["hourly"], harness.clock.now())
        assert len(await incidents(harness)) == 1
        await second_supervisor(harness)
        assert await incidents(harness) == {}


@pytest.mark.usefixtures("scheduler")
class TestSuccess:
    async def test_6_a_schedule_without_success_is_an_incident_until_a_job_succeeds(
        self, harness: SupervisorHarness
    ) -> None:
        await expect(harness, expect_success_within=60)
        await ran(harness, 1, JobState.DEAD)
        await harness.clock.advance(70)
        (incident,) = (await incidents(harness)).values()
        assert (incident.fingerprint, incident.times) == ("schedule.unsuccessful:hourly", 1)
        assert incident.job_type == "flights.load"
        assert incident.sample["text"].endswith("; its last job is dead")
        await ran(harness, 70, JobState.SUCCEEDED)
        await harness.clock.advance(20)
        assert await incidents(harness) == {}

    async def test_6_of_a_schedule_that_is_over_no_more_is_expected_than_that_its_last_job_succeeds(
        self, harness: SupervisorHarness
    ) -> None:
        for name in ("hourly", "done"):
            await harness.store.put_schedules([schedule(name, due=None, expect_success_within=60)])
        await ran(harness, 1, JobState.SUCCEEDED, "done")
        await ran(harness, 1, JobState.DEAD)
        await harness.clock.advance(600)
        assert [*await incidents(harness)] == ["schedule.unsuccessful:hourly"]

    async def test_6_what_nobody_expects_any_more_is_closed(self, harness: SupervisorHarness) -> None:
        await expect(harness, expect_success_within=60)
        await harness.clock.advance(70)
        assert len(await incidents(harness)) == 1
        await harness.store.remove_schedules(["hourly"], harness.clock.now())
        await harness.clock.advance(400)
        assert await incidents(harness) == {}


def pauses(harness: SupervisorHarness) -> list[SchedulePauseRequested]:
    published = harness.published(topology.COMMANDS)
    return [event for event in published if isinstance(event, SchedulePauseRequested)]


@pytest.mark.usefixtures("scheduler")
class TestFailures:
    async def test_2_a_schedule_whose_last_jobs_have_failed_is_requested_to_pause_and_is_an_incident(
        self, harness: SupervisorHarness
    ) -> None:
        await Listener(harness.bus, _RECORDING_QUEUE.name, harness._receive, harness.clock).start()
        await expect(harness, pause_after_failures=3)
        for seconds in (1, 2):
            await ran(harness, seconds, JobState.DEAD)
        await harness.clock.advance(10)
        assert pauses(harness) == []
        await ran(harness, 3, JobState.DEAD)
        await harness.clock.advance(5)
        (pause,) = pauses(harness)
        assert (pause.data.name, pause.data.reason) == ("hourly", "its last 3 jobs have failed")
        (incident,) = (await incidents(harness)).values()
        assert incident.fingerprint == "schedule.paused:hourly"
        now = harness.clock.now()
        await harness.store.pause_schedules(["hourly"], now, paused=True, why=pause.data.reason)
        await harness.clock.advance(60)
        assert [one.id for one in pauses(harness)] == [pause.id], "nobody asks for it again"
        assert len(await incidents(harness)) == 1
        await harness.store.pause_schedules(["hourly"], harness.clock.now(), paused=False)
        await harness.clock.advance(10)
        assert await incidents(harness) == {}, "it was resumed"
