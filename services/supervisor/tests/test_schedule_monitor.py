"""What is wrong with schedules (points 2 and 6): decided from the store, raised and closed by supervisors."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from services.supervisor.tests.stage import NOW, SupervisorHarness
from tests.store_rows import breaker_row, running_job, tick_row

from warrener_contracts import events, topology
from warrener_contracts.policy import JobPolicy
from warrener_contracts.schedule_rules import CronRule, ScheduleChoices
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import Binding, Queue, Topology
from warrener_contracts.triggers import EventRule
from warrener_runtime.bus.memory import MemoryBus
from warrener_runtime.bus.types import QueueStats
from warrener_runtime.lifecycle.listener import Listener
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, BreakerRow, OpenBreakers
from warrener_store.incidents.rows import IncidentFilter, IncidentRow
from warrener_store.jobs.rows import JobRow
from warrener_store.schedules.rows import RunRow, ScheduleRow, TickRow, WatchedSchedule, WatchRow
from warrener_store.schedules.rules import is_over, overdue_since
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.decisions.schedule_health import (
    MANY,
    explain_missing_success,
    explain_missing_tick,
    failing_issue,
    history_of,
    merge_if_many,
    overdue_issues,
    unsuccessful_issue,
)
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.schedule_monitor import ScheduleMonitor

HOUR = timedelta(hours=1)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def schedule(name: str = "hourly", due: float | None = 0, **choices: Any) -> ScheduleRow:
    definition = events.SchedulePutData(
        name=name,
        rule=CronRule(expression="@hourly"),
        job_type="flights.load",
        choices=ScheduleChoices.model_validate(choices),
    )
    next_at = None if due is None else at(due)
    return ScheduleRow(
        definition=definition, put_at=NOW - HOUR, zone_version="x", next_at=next_at, wake_at=next_at
    )


@pytest.mark.parametrize(
    ("choices", "seconds", "late"),
    [
        ({}, 29, False),
        ({}, 31, True),
        ({"grace": 60}, 79, False),
        ({"grace": 60}, 81, True),
        ({"overdue_after": 2}, 3, True),
        ({"overdue_after": "1h"}, 3599, False),
    ],
)
def test_6_a_schedule_is_overdue_when_its_grace_and_some_slack_are_over(
    *, choices: dict[str, Any], seconds: float, late: bool
) -> None:
    assert (overdue_since(schedule(**choices), at(seconds)) is not None) is late


def test_6_a_schedule_is_over_when_nothing_of_it_is_to_come() -> None:
    event = EventRule(key="landed")

    def waits_for_events(**choices: Any) -> ScheduleRow:
        row = schedule(due=None, **choices)
        return replace(row, runs=3, definition=row.definition.model_copy(update={"rule": event}))

    assert is_over(schedule(due=None), NOW)
    assert not is_over(replace(schedule(due=None), waiting=1), NOW)
    assert not is_over(waits_for_events(max_runs=4), NOW)
    assert is_over(waits_for_events(max_runs=3), NOW)
    assert is_over(waits_for_events(end=at(-1)), NOW)
    assert not is_over(schedule(), NOW)


def test_6_neither_a_schedule_that_is_over_nor_a_paused_one_is_overdue() -> None:
    assert overdue_since(schedule(due=None), at(9999)) is None
    assert overdue_since(replace(schedule(), paused=True), at(9999)) is None
    put_off = replace(schedule(), wake_at=at(9999))
    assert overdue_since(put_off, at(60)) is not None, "its tick is due, whenever it is looked at"
    late_by_jitter = replace(schedule(jitter=100), wake_at=at(100))
    assert overdue_since(late_by_jitter, at(129)) is None
    assert overdue_since(late_by_jitter, at(131)) is not None


def test_6_many_overdue_schedules_are_one_trouble() -> None:
    few = overdue_issues([schedule(f"s{n}") for n in range(MANY)], at(60))
    assert [trouble.schedule for trouble in merge_if_many(few)] == sorted(f"s{n}" for n in range(MANY))
    many = overdue_issues([schedule(f"s{n}", n / 100) for n in range(MANY + 1)], at(60))
    (one,) = merge_if_many(many)
    assert one.fingerprint == "schedule.overdue"
    assert one.text.startswith("21 schedules have not ticked, s0, s1, s2, s3, s4 among them")


def watched(*states: JobState | None, paused: bool = False, **fields: Any) -> WatchedSchedule:
    """The newest last, one a minute."""
    runs = [
        RunRow(
            nominal_at=at(60 * place),
            decided_at=at(60 * place),
            fired_at=at(60 * place),
            state=state,
            finished_at=at(60 * place + 5) if state is not None and state.terminal else None,
        )
        for place, state in enumerate(states)
    ]
    row: dict[str, Any] = {"name": "hourly", "since": at(-1), "check_at": NOW} | fields
    return WatchedSchedule(WatchRow(**row), paused, tuple(reversed(runs)))


DEAD, DONE, RUNS = JobState.DEAD, JobState.SUCCEEDED, JobState.RUNNING
GONE, LATE = JobState.CANCELLED, JobState.EXPIRED


@pytest.mark.parametrize(
    ("states", "failures"),
    [
        ((), 0),
        ((DEAD, DEAD, DEAD), 3),
        ((DEAD, DONE, DEAD, LATE), 2),
        ((DEAD, DEAD, DONE), 0),
        ((DEAD, RUNS, DEAD, GONE, RUNS), 2),
        ((DEAD, None), 2),
    ],
)
def test_2_failures_are_counted_back_to_the_last_success(
    states: tuple[JobState | None, ...], failures: int
) -> None:
    standing = history_of(watched(*states, pause_after=3), at(3600))
    assert standing.failures == failures
    assert (failing_issue(standing) is not None) is (failures >= 3)


def test_2_neither_a_job_that_is_not_there_yet_nor_what_failed_before_it_was_resumed_counts() -> None:
    assert history_of(watched(None, pause_after=1), at(59)).failures == 0
    assert history_of(watched(None, pause_after=1), at(61)).failures == 1
    standing = history_of(watched(DEAD, DEAD, DEAD, pause_after=2, since=at(90)), at(3600))
    assert standing.failures == 1
    assert failing_issue(history_of(watched(DEAD, DEAD, paused=True, pause_after=2), at(3600))) is None


def test_6_no_success_within_the_time_that_was_chosen() -> None:
    row: dict[str, Any] = {"success_within": HOUR}
    assert unsuccessful_issue(history_of(watched(DEAD, **row), at(3500)), at(3500)) is None
    late = unsuccessful_issue(history_of(watched(DEAD, **row), at(3601)), at(3601))
    assert late is not None
    assert "one was expected within 1:00:00" in late.text
    assert unsuccessful_issue(history_of(watched(DEAD, paused=True, **row), at(3601)), at(3601)) is None
    fine = history_of(watched(DONE, DEAD, **row), at(3601))
    assert fine.row.last_success_at == at(5)
    assert unsuccessful_issue(fine, at(3601)) is None, "the hour counts from when it has succeeded"
    assert unsuccessful_issue(fine, at(3606)) is not None


FIRED = tick_row("hourly", at(0), events.TickStatus.FIRED, fired_at=at(0))
OPEN = breaker_row(
    "dependency:billing-api",
    manual=True,
    since=at(0),
    until=at(600),
    times_opened=1,
    reason="being upgraded",
    job_types=("flights.load",),
)
UNCONFIRMED = replace(FIRED, fired_at=None)
BOOM = events.ErrorInfo(kind=events.ErrorKind.ERROR, type="Boom", message="no such file")


def test_why_a_tick_is_not_decided() -> None:
    assert explain_missing_tick(None).startswith("the broker does not answer")
    assert explain_missing_tick(QueueStats(0, 0)).startswith("no scheduler consumes requests")
    assert explain_missing_tick(QueueStats(5000, 2)).startswith("5000 requests wait for 2 schedulers")
    assert explain_missing_tick(QueueStats(3, 2)).startswith("schedulers are there (2)")


def job(state: JobState, error: events.ErrorInfo | None = None) -> JobRow:
    """A job of the schedule, of queue `default`, behind the breaker of billing-api."""
    return replace(running_job(), state=state, error=error, policy=JobPolicy(depends_on=("billing-api",)))


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (job(JobState.DEAD, BOOM), "its last job is dead: no such file"),
        (job(JobState.EXPIRED), "its last job is expired"),
        (job(JobState.RUNNING), "its last job is running"),
        (job(JobState.RETRYING, BOOM), "its last job is tried again: no such file"),
        (job(JobState.QUEUED), "its last job waits in queue default"),
        (job(JobState.SUCCEEDED), None),
        (None, "the request of its last tick was rejected: see `warrener parked`"),
    ],
)
def test_why_no_job_succeeds(row: JobRow | None, cause: str | None) -> None:
    assert explain_missing_success(FIRED, row, {"default"}, NO_OPEN_BREAKERS, at(120)) == cause


@pytest.mark.parametrize(
    ("tick", "row", "holding", "seconds", "cause"),
    [
        (FIRED, job(JobState.QUEUED), [], 120, "no agent serves queue default, where its last job waits"),
        (None, None, [], 0, "none of its newest ticks has requested a job"),
        (UNCONFIRMED, None, [], 0, "the broker has not confirmed the request of its last tick"),
        (FIRED, None, [], 5, None),  # a moment ago
        (
            FIRED,
            job(JobState.QUEUED),
            [OPEN],
            120,
            "its last job is held back: dependency:billing-api is open",
        ),
    ],
)
def test_why_no_job_begins(
    tick: TickRow | None, row: JobRow | None, holding: list[BreakerRow], seconds: float, cause: str | None
) -> None:
    assert explain_missing_success(tick, row, {"other"}, OpenBreakers(holding), at(seconds)) == cause


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
    found = await harness.store.escalations.incidents(IncidentFilter(closed=closed))
    return {incident.fingerprint: incident for incident in found}


async def ran(harness: SupervisorHarness, seconds: float, state: JobState, name: str = "hourly") -> None:
    """A tick whose job has come to this end."""
    job_id = uuid4()
    job = replace(running_job(job_id=job_id), state=state, wake_at=None, finished_at=at(seconds + 1))
    await harness.store.insert_jobs([replace(job, version=2)])
    fired = tick_row(name, at(seconds), events.TickStatus.FIRED, job_id=job_id, fired_at=at(seconds))
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

    async def test_6_two_supervisors_raise_one_incident_about_stopped_schedulers(
        self, harness: SupervisorHarness, scheduler: MemoryBus
    ) -> None:
        ports = SupervisorPorts(harness.bus, harness.store, harness.clock, Timings())
        other = ScheduleMonitor(ports, IncidentReporter(harness.store.escalations, harness.clock))
        await harness.store.put_schedules([schedule()])
        await scheduler.close()
        for _ in range(30):  # each has its own moment since when nobody consumes
            await harness.clock.advance(4)
            await other.run_once()
        assert (await incidents(harness))["scheduler.stopped"].times == 1

    async def test_6_a_scheduler_is_missed_where_a_schedule_is_if_only_for_an_event(
        self, harness: SupervisorHarness
    ) -> None:
        await harness.clock.advance(120)
        assert await incidents(harness) == {}
        row = schedule(due=None)
        changed = row.definition.model_copy(update={"rule": EventRule(key="landed")})
        await harness.store.put_schedules([replace(row, definition=changed)])
        await harness.clock.advance(60)
        assert [*await incidents(harness)] == ["scheduler.stopped"]

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
        await harness.store.remove_schedules(["hourly"], harness.clock.now())
        await harness.clock.advance(400)
        assert await incidents(harness) == {}, "nobody expects it any more"


def pauses(harness: SupervisorHarness) -> list[events.SchedulePauseRequested]:
    published = harness.published(topology.COMMANDS)
    return [event for event in published if isinstance(event, events.SchedulePauseRequested)]


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
