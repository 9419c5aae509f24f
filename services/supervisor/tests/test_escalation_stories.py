"""What follows deaths, by the supervisor in memory and on virtual time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.supervisor.tests.stage import Stage
from services.supervisor.tests.words import BOOM, NOW, failed, make

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import (
    IncidentAcknowledgeRequested,
    IncidentAcknowledgeRequestedData,
    IncidentCloseRequested,
    IncidentCloseRequestedData,
    IncidentSnoozeRequested,
    IncidentSnoozeRequestedData,
    JobRequested,
)
from warrener_contracts.messages import Message
from warrener_contracts.policy import JobPolicy
from warrener_contracts.states import JobState
from warrener_runtime.seeded_entropy import SeededEntropy
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.escalations import CaseRow
from warrener_store.memory import MemoryStore
from warrener_store.rows import JobRow
from warrener_supervisor.escalation import asking
from warrener_supervisor.escalation.alerts import Alert
from warrener_supervisor.escalation.intake import Intake
from warrener_supervisor.escalation.loading import parse
from warrener_supervisor.escalation.model import Sink
from warrener_supervisor.escalation.runner import Runner
from warrener_supervisor.escalation.sinks.port import AlertSink
from warrener_supervisor.escalation.sinks.rack import Rack


class Office:
    """A runner, what it asks for, and what it tells."""

    def __init__(self, file: str) -> None:
        self.clock = VirtualClock(NOW)
        self.store = MemoryStore()
        self.cases = self.store.escalations
        self.intake = Intake(self.cases, self.clock)
        self.asked: list[JobRequested] = []
        self.told: list[Alert] = []
        declared = parse(file, {})
        self.runner = Runner(
            self.store,
            self._ask,
            lambda: declared,
            rack=Rack(self._sink),
            clock=self.clock,
            entropy=SeededEntropy(1),
        )

    async def _ask(self, letters: Sequence[Message]) -> None:
        for letter in letters:
            for found in decode(letter.body, letter.content_type):
                assert isinstance(found, DecodedEvent)
                assert isinstance(found.event, JobRequested)
                self.asked.append(found.event)

    def _sink(self, name: str, declared: Sink) -> AlertSink:
        assert (name, declared.log) == ("log", "error")
        return self

    async def send(self, alert: Alert, now: datetime) -> None:
        """As a sink."""
        assert now == self.clock.now()
        self.told.append(alert)

    async def die(self, **fields: Any) -> JobRow:
        """A job dies."""
        row = make(JobState.DEAD, **({"job_id": uuid4(), "error": BOOM} | fields))
        await self.store.insert_jobs([row])
        await self.intake.bury([row])
        return row

    async def after(self, seconds: float, every: float = 1) -> CaseRow:
        """Look again and again until then; the case that is no digest."""
        for _ in range(int(seconds / every)):
            await self.clock.advance(every)
            await self.runner.look()
        (row,) = [row for row in await self.cases.cases(closed=True) if row.kind != "digest"]
        return row

    def asked_for(self, job_type: str) -> list[UUID]:
        """The ids of the jobs of this type that were asked for."""
        return [UUID(event.id) for event in self.asked if event.data.job_type == job_type]


def ladder(*steps: str) -> str:
    return f'[[ladder]]\nname = "a"\nsteps = [{", ".join(steps)}]'


UNDO = '{ do = "compensate", job_type = "undo", after = "1m", arguments = { path = "{arguments.path}" } }'


async def test_what_a_retry_mends_wakes_nobody() -> None:
    office = Office(ladder('{ do = "retry" }', '{ do = "alert", after = "1m" }'))
    dead = [await office.die() for _ in range(2)]
    await office.after(5)
    ids = [asking.retried_as(row.job_id) for row in dead]
    assert sorted(office.asked_for("flights.load")) == sorted(ids)
    assert office.asked[0].data.arguments == dead[0].arguments
    await office.store.insert_jobs([make(JobState.SUCCEEDED, job_id=each) for each in ids])
    row = await office.after(60)
    assert row.closed_why == "mended: all 2 jobs have succeeded when they were asked for again"
    assert office.told == []


async def test_a_job_and_its_retry_have_one_compensation() -> None:
    office = Office(ladder('{ do = "retry" }', UNDO))
    first = await office.die()
    await office.after(5)
    again = asking.retried_as(first.job_id)
    await office.die(job_id=again, source=asking.RETRIES, parent_id=first.job_id)
    row = await office.after(70)
    assert (row.times, row.step) == (2, 2)
    assert office.asked_for("flights.load") == [again], "what a ladder has retried is not retried again"
    assert set(office.asked_for("undo")) == {asking.compensated_by(first.job_id, "undo")}


async def test_a_compensation_waits_for_a_retry_that_still_runs() -> None:
    office = Office(ladder('{ do = "retry" }', UNDO))
    dead = await office.die()
    await office.after(5)
    again = make(JobState.QUEUED, job_id=asking.retried_as(dead.job_id))
    await office.store.insert_jobs([again])
    row = await office.after(70)
    assert (office.asked_for("undo"), row.step) == ([], 1)
    assert row.trouble == "1 jobs are being retried: what comes of that is waited for"


async def test_asking_again_after_a_crash_asks_for_the_same_job(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(ladder(UNDO))
    dead = await office.die()

    async def dies(*_: object) -> None:
        raise ConnectionError("killed before it could be noted")

    with monkeypatch.context() as patched:
        patched.setattr(office.cases, "settle", dies)
        await office.after(61)
    row = await office.after(30)
    wanted = asking.compensated_by(dead.job_id, "undo")
    assert len(office.asked) > 1
    assert {*office.asked_for("undo")} == {wanted}
    assert (row.step, row.trouble) == (1, None)


async def test_what_dies_later_is_compensated_at_once_and_told_no_second_time() -> None:
    office = Office(ladder('{ do = "alert" }', UNDO))
    await office.die()
    await office.after(70)
    for _ in range(1200):
        await office.die()
    row = await office.after(2)
    assert (row.times, len(office.told)) == (1201, 1)
    assert len({*office.asked_for("undo")}) == len(office.asked) == 1201


async def test_a_job_that_the_template_does_not_fit_stops_no_other() -> None:
    office = Office(ladder(UNDO))
    await office.die(arguments={})
    good = await office.die()
    row = await office.after(62)
    assert office.asked_for("undo") == [asking.compensated_by(good.job_id, "undo")]
    assert row.trouble == "1 jobs: expected {arguments.path} in the dead job, got nothing by that name"
    row = await office.after(3600, every=10)
    assert row.trouble is not None
    assert (row.step, row.trouble[:19]) == (1, "passed over 1 jobs:"), "the ladder goes on in the end"
    await office.die(arguments={})
    late = await office.die()
    row = await office.after(2)
    assert row.wake_at is None, "what comes late and does not fit holds nothing up either"
    assert office.asked_for("undo")[1:] == [asking.compensated_by(late.job_id, "undo")]


async def test_the_less_important_stands_in_a_report_a_day() -> None:
    hours = timedelta(hours=1).total_seconds()
    digest = '[digest.daily]\nat = "15:00"\nzone = "UTC"\n'  # it is noon
    office = Office(digest + ladder('{ do = "digest" }'))
    for _ in range(3):
        await office.die()
    await office.die(job_type="mail.send")
    await office.clock.advance(1)
    await office.runner.look()
    assert office.told == []
    for _ in range(30):
        await office.clock.advance(hours)
        await office.runner.look()
    (report,) = office.told
    assert report.title == "Digest daily: 2 cases, 4 times"
    beginnings = [" ".join(line.split()[:4]) for line in report.text.splitlines()]
    assert beginnings == ["3 times job.dead flights.load", "1 times job.dead mail.send"]

    await office.die()
    for _ in range(30):
        await office.clock.advance(hours)
        await office.runner.look()
    assert [one.title for one in office.told[1:]] == ["Digest daily: 1 cases, 4 times"]
    assert len({one.alert_id for one in office.told}) == 2


async def test_anybody_in_the_supervisor_may_raise_a_case() -> None:
    office = Office(ladder('{ do = "retry" }', '{ do = "alert" }'))
    lost = {"text": "agent a1 was last heard of at noon"}
    for moment in ("12:00", "12:00", "12:05"):
        occurrence = f"a1 {moment}"
        await office.intake.raise_case("agent.lost", "a1", "agent.lost:a1", lost, occurrence=occurrence)
    row = await office.after(3)
    assert (row.times, row.step) == (2, 2)
    assert [(one.title, one.text.splitlines()[0]) for one in office.told] == [
        ("agent.lost: a1, 2 times", "agent a1 was last heard of at noon")
    ]


def _named() -> dict[str, Any]:
    return {"id": str(uuid4()), "source": "test"}


async def test_a_death_is_a_case_and_people_are_heard_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage()
    await stage.open(make(JobState.RUNNING, policy=JobPolicy(max_attempts=1)))
    await stage.say(failed(), then=0)
    await stage.say(failed(), then=3)  # the news comes again
    (row,) = await stage.store.escalations.cases()
    assert (row.kind, row.job_type, row.times) == ("job.dead", "flights.load", 1)
    assert (row.step, row.wake_at) == (1, None), "at the end of its ladder"
    assert capsys.readouterr().err.count("Alert: job.dead: flights.load, 1 times") == 1

    name = row.fingerprint
    until = stage.clock.now() + timedelta(hours=1)
    await stage.say(
        IncidentAcknowledgeRequested(**_named(), data=IncidentAcknowledgeRequestedData(fingerprint=name, by="ann")),
        IncidentSnoozeRequested(
            **_named(), data=IncidentSnoozeRequestedData(fingerprint=name, by="ann", until=until)
        ),
        IncidentCloseRequested(**_named(), data=IncidentCloseRequestedData(fingerprint="unknown", by="ann")),
        then=2,
    )
    (row,) = await stage.store.escalations.cases()
    assert (row.acknowledged_by, row.snoozed_until) == ("ann", until)
    await stage.say(
        IncidentCloseRequested(**_named(), data=IncidentCloseRequestedData(fingerprint=name, by="ann", reason="so")),
        then=2,
    )
    assert await stage.store.escalations.cases() == []
    (row,) = await stage.store.escalations.cases(closed=True)
    assert row == replace(row, closed_why="by ann: so", wake_at=None)
    await stage.close()
