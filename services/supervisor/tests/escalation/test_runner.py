"""What follows deaths, by the supervisor in memory and on virtual time."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.supervisor.tests.stage import BOOM, NOW, event, failed, make, opened
from services.supervisor.tests.webhook_receiver import SECRET, WebhookDelivery, WebhookReceiver
from tests.store_rows import raised_incident

from warrener_contracts import events
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.messages import Message
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_store.incidents.rows import IncidentFilter, IncidentRow
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore
from warrener_supervisor.escalation import alert_sinks, job_steps
from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.escalation.policy import Escalation, SinkConfig
from warrener_supervisor.escalation.policy_file import check_file
from warrener_supervisor.escalation.runner import EscalationRunner


class EscalationRig:
    """A runner, what it asks for, and what it tells."""

    def __init__(self, file: str) -> None:
        self.clock = VirtualClock(NOW)
        self.store = MemoryStore()
        self.incidents = self.store.escalations
        self.reporter = IncidentReporter(self.incidents, self.clock)
        self.requested: list[events.JobRequested] = []
        self.alerts: list[AlertMessage] = []
        self.file = check_file(file, {})
        self.runner = self.new_runner(lambda: self.file)

    def new_runner(self, policies: Callable[[], Escalation], seed: int = 1) -> EscalationRunner:
        """The runner of a supervisor that shares the store."""
        return EscalationRunner(
            self.store, self._publish, policies, clock=self.clock, entropy=SeededEntropy(seed), send=self.send
        )

    async def _publish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for found in decode(message.body, message.content_type):
                assert isinstance(found, DecodedEvent)
                assert isinstance(found.event, events.JobRequested)
                self.requested.append(found.event)

    async def send(self, name: str, declared: SinkConfig, alert: AlertMessage, now: datetime) -> None:
        assert (name, declared.log, now) == ("log", "error", self.clock.now())
        self.alerts.append(alert)

    async def die(self, **fields: Any) -> JobRow:
        await self.runner.load_policies()
        died_at = self.clock.now()
        row = make(JobState.DEAD, **({"job_id": uuid4(), "error": BOOM, "finished_at": died_at} | fields))
        await self.store.insert_jobs([row])
        await self.reporter.raise_dead_jobs([row])
        return row

    async def after(self, seconds: float, every: float = 1) -> IncidentRow:
        """Look again and again until then; the incident that is no digest."""
        for _ in range(int(seconds / every)):
            await self.clock.advance(every)
            await self.runner.run_once()
        rows = await self.incidents.incidents(IncidentFilter(closed=True))
        (row,) = [row for row in rows if row.kind != "digest"]
        return row

    def requested_ids(self, job_type: str) -> list[UUID]:
        return [UUID(event.id) for event in self.requested if event.data.job_type == job_type]


def policy(*steps: str) -> str:
    return f'[[policy]]\nname = "a"\nsteps = [{", ".join(steps)}]'


UNDO = '{ do = "compensate", job_type = "undo", after = "1m", arguments = { path = "{{ arguments.path }}" } }'


async def test_what_a_retry_mends_wakes_nobody() -> None:
    rig = EscalationRig(policy('{ do = "retry" }', '{ do = "alert", after = "1m" }'))
    dead = [await rig.die() for _ in range(2)]
    await rig.after(5)
    ids = [job_steps.retry_job_id(row.job_id) for row in dead]
    assert sorted(rig.requested_ids("flights.load")) == sorted(ids)
    assert rig.requested[0].data.arguments == dead[0].arguments
    await rig.store.insert_jobs([make(JobState.SUCCEEDED, job_id=each) for each in ids])
    row = await rig.after(60)
    assert row.close_reason == "mended: all 2 jobs have succeeded when they were requested again"
    assert rig.alerts == []


async def test_a_job_and_its_retry_have_one_compensation() -> None:
    rig = EscalationRig(policy('{ do = "retry" }', UNDO))
    first = await rig.die()
    await rig.after(5)
    again = job_steps.retry_job_id(first.job_id)
    await rig.die(job_id=again, source=job_steps.RETRY_SOURCE, parent_id=first.job_id)
    row = await rig.after(70)
    assert (row.times, row.step) == (2, 2)
    assert rig.requested_ids("flights.load") == [again], "what a policy has retried is not retried again"
    assert set(rig.requested_ids("undo")) == {job_steps.compensation_job_id(first.job_id, "undo")}


async def test_a_compensation_waits_for_a_retry_that_still_runs() -> None:
    rig = EscalationRig(policy('{ do = "retry" }', UNDO))
    dead = await rig.die()
    await rig.after(5)
    again = make(JobState.QUEUED, job_id=job_steps.retry_job_id(dead.job_id))
    await rig.store.insert_jobs([again])
    row = await rig.after(70)
    assert (rig.requested_ids("undo"), row.step) == ([], 1)
    assert row.last_error == "1 jobs are being retried: their ends are awaited"


async def test_requesting_again_after_a_crash_requests_the_same_job(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = EscalationRig(policy(UNDO))
    dead = await rig.die()

    async def dies(*_: object) -> None:
        raise ConnectionError("killed before it could be noted")

    with monkeypatch.context() as patched:
        patched.setattr(rig.incidents, "settle", dies)
        await rig.after(61)
    row = await rig.after(30)
    wanted = job_steps.compensation_job_id(dead.job_id, "undo")
    assert len(rig.requested) > 1
    assert {*rig.requested_ids("undo")} == {wanted}
    assert (row.step, row.last_error) == (1, None)


async def test_what_dies_later_is_compensated_at_once_and_not_alerted_again() -> None:
    rig = EscalationRig(policy('{ do = "alert" }', UNDO))
    await rig.die()
    await rig.after(70)
    for _ in range(1200):
        await rig.die()
    row = await rig.after(2)
    assert (row.times, len(rig.alerts)) == (1201, 1)
    assert len({*rig.requested_ids("undo")}) == len(rig.requested) == 1201


async def test_a_job_that_the_template_does_not_fit_stops_no_other() -> None:
    rig = EscalationRig(policy(UNDO))
    await rig.die(arguments={})
    good = await rig.die()
    row = await rig.after(62)
    assert rig.requested_ids("undo") == [job_steps.compensation_job_id(good.job_id, "undo")]
    assert row.last_error == "1 jobs: expected a value of arguments.path, got none"
    row = await rig.after(3600, every=10)
    assert row.last_error is not None
    assert (row.step, row.last_error[:19]) == (1, "passed over 1 jobs:"), "the policy goes on in the end"
    await rig.die(arguments={})
    late = await rig.die()
    row = await rig.after(2)
    assert row.wake_at is None, "what comes late and does not fit holds nothing up either"
    assert rig.requested_ids("undo")[1:] == [job_steps.compensation_job_id(late.job_id, "undo")]


async def test_a_job_that_is_too_large_to_be_requested_again_stops_no_other() -> None:
    rig = EscalationRig(policy('{ do = "retry" }'))
    await rig.die(arguments={"path": "x" * MAX_BODY})
    good = await rig.die()
    row = await rig.after(2)
    assert rig.requested_ids("flights.load") == [job_steps.retry_job_id(good.job_id)]
    assert (row.last_error or "").startswith("1 jobs: expected a request of at most")


async def test_the_less_important_stands_in_a_report_a_day() -> None:
    hours = timedelta(hours=1).total_seconds()
    digest = '[digest.daily]\nat = "15:00"\nzone = "UTC"\n'  # it is noon
    rig = EscalationRig(digest + policy('{ do = "digest" }'))
    for _ in range(3):
        await rig.die()
    await rig.die(job_type="mail.send")
    await rig.clock.advance(1)
    await rig.runner.run_once()
    assert rig.alerts == []
    for _ in range(30):
        await rig.clock.advance(hours)
        await rig.runner.run_once()
    (report,) = rig.alerts
    assert report.title == "Digest daily: 2 incidents, 4 times"
    first_lines = [" ".join(line.split()[:4]) for line in report.text.splitlines()]
    assert first_lines == ["3 times job.dead flights.load", "1 times job.dead mail.send"]
    await rig.die()
    for _ in range(30):
        await rig.clock.advance(hours)
        await rig.runner.run_once()
    assert [one.title for one in rig.alerts[1:]] == ["Digest daily: 1 incidents, 4 times"]
    assert len({one.alert_id for one in rig.alerts}) == 2


async def test_anybody_in_the_supervisor_may_raise_an_incident() -> None:
    rig = EscalationRig(policy('{ do = "retry" }', '{ do = "alert" }'))
    lost = {"text": "agent a1 was last heard of at noon"}
    for moment in ("12:00", "12:00", "12:05"):
        occurrence = f"a1 {moment}"
        await rig.reporter.raise_incident("agent.lost", "a1", "agent.lost:a1", lost, occurrence=occurrence)
    row = await rig.after(3)
    assert (row.times, row.step) == (2, 2)
    assert [(one.title, one.text.splitlines()[0]) for one in rig.alerts] == [
        ("agent.lost: a1, 2 times", "agent a1 was last heard of at noon")
    ]


async def test_a_death_is_an_incident_and_commands_about_it_apply(capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(make(JobState.RUNNING, policy=JobPolicy(max_attempts=1))) as harness:
        await harness.publish(failed(), then=0)
        await harness.publish(failed(), then=3)  # the news comes again
        (row,) = await harness.store.escalations.incidents()
        assert (row.kind, row.job_type, row.times) == ("job.dead", "flights.load", 1)
        assert (row.step, row.wake_at) == (1, None), "at the end of its policy"
        assert capsys.readouterr().err.count("Alert: job.dead: flights.load, 1 times") == 1
        name = row.fingerprint
        until = harness.clock.now() + timedelta(hours=1)
        await harness.publish(
            event(events.IncidentAcknowledgeRequested, "ack", fingerprint=name, by="ann"),
            event(events.IncidentSnoozeRequested, "snooze", fingerprint=name, by="ann", until=until),
            event(events.IncidentCloseRequested, "unknown", fingerprint="unknown", by="ann"),
            then=2,
        )
        (row,) = await harness.store.escalations.incidents()
        assert (row.acknowledged_by, row.snoozed_until) == ("ann", until)
        close = event(events.IncidentCloseRequested, "close", fingerprint=name, by="ann", reason="so")
        await harness.publish(close, then=2)
        assert await harness.store.escalations.incidents() == []
        (row,) = await harness.store.escalations.incidents(IncidentFilter(closed=True))
        assert row == replace(row, close_reason="by ann: so", wake_at=None)


# Two of the plug-ins that Apprise loads ask Python 3.11 for what Python 3.13 has no more; they know it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

ALERT = AlertMessage("id-1", "job.dead: bank.pay", "Boom: bö\x00m", urgent=False, facts={"times": 3})


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    """It says yes, until told otherwise."""
    with WebhookReceiver() as one:
        yield one


async def test_a_webhook_is_signed_so_that_its_receiver_knows_who_and_when(receiver: WebhookReceiver) -> None:
    await alert_sinks.send_to_webhook(receiver.url, SECRET, ALERT, NOW)
    (delivery,) = receiver.received
    assert delivery.webhook_id == "id-1"
    assert delivery.body["type"] == "warrener.alert"
    assert delivery.data == {"title": ALERT.title, "text": ALERT.text, "urgent": False, "times": 3}
    other = f"whsec_{b64encode(b'another key').decode()}"
    with pytest.raises(alert_sinks.SinkFailed, match="expected an answer of 2xx from the webhook, got 401"):
        await alert_sinks.send_to_webhook(receiver.url, other, ALERT, NOW)
    assert (len(receiver.wrong), len(receiver.received)) == (1, 1), "another key is not believed"
    receiver.answer = lambda _: 307
    with pytest.raises(alert_sinks.SinkFailed, match="got 307"):
        await alert_sinks.send_to_webhook(receiver.url, SECRET, ALERT, NOW)
    assert receiver.raw == [], "a redirect is not followed"
    with WebhookReceiver() as gone:
        url = gone.url
    with pytest.raises(alert_sinks.SinkFailed, match="expected an answer from the webhook"):
        await alert_sinks.send_to_webhook(url, SECRET, ALERT, NOW)


async def test_what_apprise_speaks_is_spoken(receiver: WebhookReceiver) -> None:
    await alert_sinks.send_by_apprise(f"json://127.0.0.1:{receiver.port}/plain", ALERT)
    (body,) = receiver.raw
    assert b"bank.pay" in body
    with pytest.raises(alert_sinks.SinkFailed, match=r"knows, got nosuch://u:\*\*\*@h"):
        await alert_sinks.send_by_apprise("nosuch://u:secret@h", ALERT)


class SinkRig(EscalationRig):
    """One incident, and a policy with two sinks that are real."""

    def __init__(self, receiver: WebhookReceiver, *steps: str) -> None:
        super().__init__(
            f"""
            [sink.hook]
            webhook = "{receiver.url}"
            secret = "{SECRET}"
            [sink.plain]
            apprise = "json://127.0.0.1:{receiver.port}/plain"
            """
            + policy(*steps)
        )

    async def send(self, name: str, declared: SinkConfig, alert: AlertMessage, now: datetime) -> None:
        await alert_sinks.send_alert(name, declared, alert, now)


async def test_a_sink_that_fails_is_tried_again_with_a_growing_pause_and_the_others_are_not_alerted_twice(
    receiver: WebhookReceiver,
) -> None:
    rig = SinkRig(receiver, '{do = "alert", to = ["hook", "plain"]}, {do = "close"}')
    receiver.answer = lambda _: 503
    await rig.store.escalations.raise_incidents([raised_incident(raised_at=NOW)])
    row = await rig.after(60)
    assert (row.step, row.failed_tries, row.delivered) == (0, 4, ("plain",))
    assert row.last_error == "hook: expected an answer of 2xx from the webhook, got 503"
    receiver.answer = lambda _: 200
    row = await rig.after(60)
    assert (row.close_reason, row.last_error) == ("by policy a", None)
    assert len(receiver.raw) == 1, "who had it was not told again"
    assert len(receiver.received) == 5, "at 1, 6, 16, 36 and 76 seconds"
    assert len({delivery.webhook_id for delivery in receiver.received}) == 1, "always the same alert"


async def test_a_supervisor_that_dies_between_alert_and_note_repeats_the_alert_under_its_id(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = SinkRig(receiver, '{do = "alert", to = ["hook"]}')
    await rig.store.escalations.raise_incidents([raised_incident(raised_at=NOW)])

    async def dies(row: IncidentRow) -> bool:
        raise ConnectionError(f"killed before {row.fingerprint} could be noted")

    with monkeypatch.context() as patched:
        patched.setattr(rig.store.escalations, "save_incident", dies)
        with pytest.raises(ConnectionError):
            await rig.after(1)
    row = await rig.after(20)
    assert (len(receiver.received), row.step) == (1, 0), "until its claim has lapsed nobody else tells it"
    row = await rig.after(20)
    assert (len(receiver.received), row.step) == (2, 1)
    assert len({delivery.webhook_id for delivery in receiver.received}) == 1


async def test_each_time_that_a_closed_incident_is_raised_again_is_an_alert_of_its_own(
    receiver: WebhookReceiver,
) -> None:
    rig = SinkRig(
        receiver, '{do = "alert", to = ["hook"], text = "{{ times }}"}, {do = "close", after = "5s"}'
    )
    incidents = rig.store.escalations
    await incidents.raise_incidents([raised_incident(raised_at=NOW), raised_incident(raised_at=NOW)])
    await rig.after(10)
    await incidents.raise_incidents(
        [raised_incident("f1", str(uuid4()), raised_at=NOW + timedelta(seconds=10))]
    )
    await rig.after(10)
    delivery: list[WebhookDelivery] = receiver.received
    assert [one.data["text"] for one in delivery] == ["2", "1"]
    assert len({one.webhook_id for one in delivery}) == 2
