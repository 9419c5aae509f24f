"""The dead-man alarm (point 6) and the pause after failures (point 2), on real processes and a real broker.
The supervisor notices what no scheduler can tell, a webhook hears of it, and it is over when it is over."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from services.supervisor.tests.webhook_receiver import WebhookReceiver
from tests.acceptance.command_line import run_command, run_json
from tests.acceptance.store_queries import incidents_of, job_types_of, look, rows_of, tick_history
from tests.acceptance.test_escalation import escalation_file
from tests.acceptance.warren import ServiceProcess, Warren, locked, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.schedule_rules import IntervalRule, ScheduleChoices
from warrener_contracts.state_machine import JobState
from warrener_store.schedules.rows import ScheduleRow, TickRow

MODULE = "tests.acceptance.watch_handlers"
POLICIES = """
[[policy]]
name = "schedules"
kinds = ["schedule.*", "scheduler.*"]
steps = [{ do = "alert", to = ["hook"], urgent = true }]
"""
PATIENCE = 120.0


class Office:
    """A warren with two schedulers and two supervisors, and who hears their alarms."""

    def __init__(self, warren: Warren, receiver: WebhookReceiver) -> None:
        self.warren, self.receiver = warren, receiver
        file = escalation_file(warren, receiver, POLICIES)
        for _ in range(2):
            warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        self.schedulers = [warren.start("scheduler") for _ in range(2)]
        warren.start("agent", MODULE)
        warren.wait_ready()
        # Of two schedulers one may take a request before the other has taken the announcement of its type.
        until(lambda: {"needs", "works"} <= {*job_types_of(warren)}, "the job types to be announced")

    def start_scheduler(self) -> ServiceProcess:
        """One more."""
        self.schedulers.append(self.warren.start("scheduler"))
        return self.schedulers[-1]

    def put(self, name: str, seconds: float, job_type: str = "works", **choices: Any) -> None:
        """A schedule that ticks every so many seconds."""
        arguments = choices.pop("arguments", {})
        data = SchedulePutData(
            name=name,
            rule=IntervalRule(every=timedelta(seconds=seconds)),
            timezone="Europe/Berlin",
            job_type=job_type,
            arguments=arguments,
            choices=ScheduleChoices.model_validate(choices),
        )
        with SyncClient(self.warren.broker_url) as client:
            client.put_schedules([data])

    def remove(self, name: str) -> None:
        """As a person does."""
        run_command(self.warren, "schedule", "remove", name)
        until(lambda: self.row(name) is None, f"{name} to be removed")

    def row(self, name: str) -> ScheduleRow | None:
        """The schedule as it stands."""
        return look(self.warren, lambda store: store.schedules([name])).get(name)

    def is_planned(self, name: str) -> bool:
        """True if its next tick is still to come."""
        found = self.row(name)
        return found is not None and found.next_at is not None and found.next_at > datetime.now(UTC)

    def tick_history(self, name: str) -> list[TickRow]:
        """Its ticks, the first one first."""
        return tick_history(self.warren, name)

    def alarms(self, kind: str, subject: str) -> list[dict[str, Any]]:
        """What the webhook has heard of it. A delivery without an answer is repeated, under the same id."""
        deliveries = {received.webhook_id: received.data for received in list(self.receiver.received)}
        return [data for data in deliveries.values() if (data["kind"], data["subject"]) == (kind, subject)]

    def until_alarmed(self, kind: str, subject: str) -> dict[str, Any]:
        """What the first alarm of it says."""
        return until(lambda: self.alarms(kind, subject), f"the alarm {kind} of {subject}", within=PATIENCE)[0]

    def until_closed(self, fingerprint: str) -> str:
        """Why its incident was closed."""

        def closed() -> str | None:
            found = [
                incident
                for incident in incidents_of(self.warren, closed=True)
                if incident.fingerprint == fingerprint
            ]
            return found[0].close_reason if found else None

        return until(closed, f"the incident {fingerprint} to be closed", within=PATIENCE)


@pytest.fixture(scope="module")
def office(shared_warren: Warren) -> Iterator[Office]:
    with WebhookReceiver() as receiver:
        office = Office(shared_warren, receiver)
        yield office
        for scheduler in office.schedulers:
            with suppress(ProcessLookupError):
                scheduler.signal(signal.SIGCONT)


def test_6_the_alarm_comes_when_every_scheduler_is_killed_and_is_over_when_one_comes_back(
    office: Office,
) -> None:
    office.put("every.second", 1, misfire="skip")
    until(lambda: office.tick_history("every.second"), "its first tick")
    for scheduler in office.schedulers:
        scheduler.kill()
    alarm = office.until_alarmed("scheduler.stopped", "all schedules")
    assert "no scheduler has been there since" in alarm["text"]
    shown = run_json(office.warren, "escalation", "list")
    assert not [incident for incident in shown if incident["kind"].startswith("schedule.")], (
        "no schedule is blamed"
    )
    until(
        lambda: "overdue" in run_command(office.warren, "schedule", "list"),
        "the command to mark the schedule",
        within=PATIENCE,
    )
    office.start_scheduler()
    assert office.until_closed("scheduler.stopped") == "a scheduler is there again"
    assert len(office.alarms("scheduler.stopped", "all schedules")) == 1, "two supervisors alarm once"
    until(lambda: office.is_planned("every.second"), "the schedule to be planned again", within=PATIENCE)
    assert "overdue" not in run_command(office.warren, "schedule", "list")
    office.remove("every.second")


def test_6_the_alarm_comes_when_the_schedulers_are_there_and_do_nothing(office: Office) -> None:
    office.put("frozen", 1, overdue_after=3, misfire="skip")
    until(lambda: office.tick_history("frozen"), "its first tick")
    office.put("patient", 1, overdue_after=3600, misfire="skip")
    until(lambda: any(tick.fired_at for tick in office.tick_history("patient")), "its first tick")
    alive = [one for one in office.schedulers if one.process.poll() is None]
    with locked(office.warren.folder / "state.db"):
        for scheduler in alive:
            scheduler.freeze()
    try:
        alarm = office.until_alarmed("schedule.overdue", "frozen")
    finally:
        for scheduler in alive:
            scheduler.signal(signal.SIGCONT)
    assert "schedule frozen has not ticked" in alarm["text"]
    assert office.until_closed("schedule.overdue:frozen") == "it ticks again"
    assert office.alarms("schedule.overdue", "patient") == []
    office.remove("frozen")
    office.remove("patient")


def test_6_the_alarm_comes_when_no_job_has_succeeded_in_time(office: Office) -> None:
    file = office.warren.folder / "expected"
    arguments = {"file": str(file), "run": "{{ tick.run }}", "day": "{{ tick.local_at | %A }}"}
    office.put("hoped.for", 2, "needs", arguments=arguments, expect_success_within=6)
    alarm = office.until_alarmed("schedule.unsuccessful", "hoped.for")
    assert (alarm["job_type"], alarm["times"]) == ("needs", 1)
    assert "no job of schedule hoped.for has succeeded since" in alarm["text"]
    file.touch()
    assert "a job has succeeded" in office.until_closed("schedule.unsuccessful:hoped.for")
    assert len(office.alarms("schedule.unsuccessful", "hoped.for")) == 1, "two supervisors alarm once"
    office.remove("hoped.for")


def test_2_a_schedule_whose_last_3_jobs_have_failed_is_paused_with_the_reason_until_it_is_resumed(
    office: Office,
) -> None:
    file = office.warren.folder / "mended"
    arguments = {"file": str(file), "run": "{{ tick.run }}", "day": "{{ tick.local_at | %Y-%m-%d }}"}
    office.put("moody", 1, "needs", arguments=arguments, pause_after_failures=3)
    alarm = office.until_alarmed("schedule.paused", "moody")
    assert "schedule moody is paused, because its last" in alarm["text"]
    until(
        lambda: office.tick_history("moody")[-1].status is TickStatus.SKIPPED,
        "a tick of the pause",
        within=PATIENCE,
    )
    why = office.tick_history("moody")[-1].reason
    assert why.startswith("the schedule is paused: its last ")
    assert why.endswith("jobs have failed")
    assert "paused: its last" in " ".join(run_command(office.warren, "schedule", "show", "moody").split())

    file.touch()
    run_command(office.warren, "schedule", "resume", "moody")
    assert "it is resumed" in office.until_closed("schedule.paused:moody")
    ticks = until(lambda: _succeeded(office, "moody"), "a job to succeed", within=PATIENCE)
    row = office.row("moody")
    assert row is not None
    assert not row.paused
    run, _, day = str(ticks[-1][1]).partition(" on ")
    # By their times: a tick that has its job may not yet be marked as fired when it is looked at first.
    fired = [tick.nominal_at for tick in office.tick_history("moody") if tick.job_id is not None]
    assert int(run) == fired.index(ticks[-1][0].nominal_at) + 1, "the run that the tick was"
    assert abs(datetime.fromisoformat(day).replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(days=2)
    office.remove("moody")


def _succeeded(office: Office, name: str) -> list[tuple[TickRow, object]]:
    """Ticks whose jobs have succeeded, with what these gave."""
    ticks = {tick.job_id: tick for tick in office.tick_history(name) if tick.job_id is not None}
    rows = rows_of(office.warren, list(ticks))
    done = [row for row in rows.values() if row.state is JobState.SUCCEEDED]
    return sorted(((ticks[row.job_id], row.result) for row in done), key=lambda one: one[0].nominal_at)
