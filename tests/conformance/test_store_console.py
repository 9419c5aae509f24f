"""What the console stores and lists, alike in every store: actions, sessions, and pages with a limit."""

from dataclasses import replace
from uuid import UUID, uuid4

from tests.conformance.test_schedules import schedule, tick
from tests.store_rows import (
    NOON,
    after,
    agent_row,
    attempt_of,
    died,
    parked_message,
    raised_incident,
    recorded_action,
    running_job,
    succeeded,
)

from warrener_contracts.events import TickStatus
from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.audit.rows import AuditFilter, AuditOutcome, AuditRecord
from warrener_store.incidents.rows import IncidentFilter, IncidentPosition
from warrener_store.jobs.rows import AttemptOutcome, Save
from warrener_store.parked.rows import BEGINNING, ParkedAt, ParkedFilter
from warrener_store.schedules.rows import ScheduleFilter, ScheduleRow
from warrener_store.sessions.rows import SessionRow


async def test_an_action_is_recorded_before_its_end_which_is_stored_once_and_never_changed(
    store: Store,
) -> None:
    odd = "'; DROP TABLE warrener_audit; -- \x00 \x1a \ud800 é 🐇 <script>"
    record = recorded_action(odd, actor=odd, reason=odd, action=odd, address=odd)
    await store.record_action(record)
    assert await store.audit_records(AuditFilter(actor=odd, action=odd, subject=odd)) == [record]
    assert (record.outcome, record.completed_at) == (AuditOutcome.REQUESTED, None)
    assert await store.complete_action(record.record_id, AuditOutcome.REFUSED, odd, after(1))
    assert not await store.complete_action(record.record_id, AuditOutcome.ACCEPTED, "no", after(2))
    await store.record_action(replace(record, actor="mallory"))
    assert await store.audit_records() == [
        replace(record, outcome=AuditOutcome.REFUSED, sentence=odd, completed_at=after(1))
    ]
    assert not await store.complete_action(uuid4(), AuditOutcome.ACCEPTED, "no such record", after(2))


async def test_records_come_newest_first_in_pages_that_miss_none_of_the_same_moment(store: Store) -> None:
    records = [
        recorded_action(f"job {number}", record_id=UUID(int=number + 1), recorded_at=after(number // 3))
        for number in range(8)
    ]
    for record in records[4:] + records[:4]:
        await store.record_action(record)
    found: list[AuditRecord] = []
    while page := await store.audit_records(limit=3, after=found[-1].position if found else None):
        found += page
    assert found == records[::-1]


async def test_records_are_selected_by_who_what_and_subject(store: Store) -> None:
    ada = recorded_action("job 1", recorded_at=after(1))
    grace = recorded_action("job 1", actor="grace", recorded_at=after(2))
    paused = recorded_action("nightly", actor="grace", action="schedule.pause", recorded_at=after(3))
    for record in (ada, grace, paused):
        await store.record_action(record)
    for which, expected in (
        (AuditFilter(actor="grace"), [paused, grace]),
        (AuditFilter(action="job.cancel"), [grace, ada]),
        (AuditFilter(subject="job 1"), [grace, ada]),
        (AuditFilter(actor="grace", action="job.cancel", subject="job 1"), [grace]),
        (AuditFilter(actor=""), []),
    ):
        assert await store.audit_records(which) == expected
    assert await store.audit_records(AuditFilter(subject="job 1"), after=grace.position) == [ada]


ADA = SessionRow(
    session_key="a1",
    actor="ada \x00 \ud800 🐇",
    role="operator",
    method="oidc",
    credential="https://login.example#ada",
    opened_at=NOON,
    expires_at=after(60),
)


async def test_a_session_is_found_by_its_key_until_it_ends(store: Store) -> None:
    grace = replace(ADA, session_key="g1", actor="grace")
    await store.open_session(ADA)
    await store.open_session(grace)
    assert await store.session("a1") == ADA
    await store.end_session("a1")
    await store.end_session("a1")
    assert await store.session("a1") is None
    assert await store.session("g1") == grace
    assert await store.session("\x00") is None

    await store.open_session(ADA)
    later = replace(ADA, session_key="a2", opened_at=after(59), expires_at=after(120))
    await store.open_session(later)
    assert await store.session("a1") == ADA
    await store.open_session(replace(later, session_key="a3", opened_at=after(60)))
    assert await store.session("a1") is None, "expired sessions go when another is opened"
    assert await store.session("a2") == later


def owned(name: str, owner: str | None, job_type: str = "flights.load", **changes: object) -> ScheduleRow:
    row = schedule(name, **changes)  # type: ignore[arg-type] # as many as a test needs
    definition = row.definition.model_copy(update={"name": name, "owner": owner, "job_type": job_type})
    return replace(row, definition=definition)


async def names(store: Store, **which: object) -> list[str]:
    return [row.name for row in await store.list_schedules(ScheduleFilter(**which))]  # type: ignore[arg-type]


async def test_schedules_come_in_pages_by_name_and_by_each_filter(store: Store) -> None:
    rows = [owned(f"s{number}", "billing" if number % 2 else None) for number in range(5)]
    await store.put_schedules([*rows, owned("Other", "code", "mail.send", wake_at=None, next_at=None)])
    assert await names(store, limit=2, after="s0") == ["s1", "s2"]
    assert await names(store, limit=2, after="s3") == ["s4"]
    assert await names(store, text="oth") == ["Other"]
    assert await names(store, owner="billing") == ["s1", "s3"]
    assert await names(store, job_type="mail.send", owner="code") == ["Other"]
    assert await names(store, sleeping=True) == ["Other"]
    await store.pause_schedules(["s2"], NOON, paused=True, why="late files")
    assert await names(store, paused=True) == ["s2"]
    assert len(await names(store, paused=False)) == 5
    assert await names(store, due_before=NOON) == []
    assert await names(store, due_before=after(1), after="s1") == ["s2", "s3", "s4"]


async def test_the_newest_runs_of_schedules_have_the_states_of_their_jobs(store: Store) -> None:
    good, bad, runs_on = running_job(), running_job(), running_job()
    await store.insert_jobs([good, bad, runs_on])
    await store.save_jobs([succeeded(good), died(bad)])
    await store.put_schedules([schedule("a"), schedule("b"), schedule("c")])
    skipped = tick("a", 30, status=TickStatus.SKIPPED, job_id=None, wake_at=None, request=None, reason="why")
    ticks = [tick("a", 0, job_id=good.job_id), tick("a", 10, job_id=bad.job_id), tick("a", 20), skipped]
    await store.add_ticks([*ticks, tick("b", 5, job_id=runs_on.job_id)])
    found = await store.runs_of(["a", "b", "c"], 3)
    assert [run.nominal_at for run in found["a"]] == [after(30), after(20), after(10)]
    assert [(run.state, run.status) for run in found["a"]] == [
        (None, TickStatus.SKIPPED),
        (None, TickStatus.FIRED),
        (JobState.DEAD, TickStatus.FIRED),
    ]
    assert (found["a"][0].reason, found["a"][0].job_id, found["a"][0].attempt) == ("why", None, None)
    assert (found["b"][0].state, found["b"][0].started_at) == (JobState.RUNNING, NOON)
    assert found["c"] == []
    [oldest] = (await store.runs_of(["a"], 3, before=after(10)))["a"]
    assert (oldest.state, oldest.job_id) == (JobState.SUCCEEDED, good.job_id)
    assert (oldest.started_at, oldest.finished_at) == (NOON, after(60))
    assert await store.runs_of([], 3) == {}


async def test_incidents_come_in_pages(store: Store) -> None:
    raised = [raised_incident(f"f{number}", raised_at=after(number // 2)) for number in range(5)]
    await store.raise_incidents(raised)
    for closed in (False, True):
        seen: list[str] = []
        place: IncidentPosition | None = None
        while page := await store.incidents(IncidentFilter(closed=closed, after=place, limit=2)):
            seen += [row.fingerprint for row in page]
            place = IncidentPosition(page[-1].last_seen_at, page[-1].fingerprint)
        assert seen == ["f4", "f3", "f2", "f1", "f0"]


async def test_parked_messages_are_listed_without_their_bodies(store: Store) -> None:
    body = b"\x00\xff" * BEGINNING
    message = parked_message("p1", detail="a\x00b", body=body, type="job.requested.v1")
    await store.park([message, replace(message, parked_id="p2", parked_at=after(1), body=b"")])
    newest, oldest = await store.parked_summaries()
    assert (newest.parked_id, newest.size, newest.beginning) == ("p2", 0, b"")
    assert (oldest.size, oldest.beginning, oldest.detail) == (len(body), body[:BEGINNING], "a\x00b")
    assert await store.parked_summaries(ParkedFilter(), 5, ParkedAt(after(1), "p2")) == [oldest]
    assert await store.parked_summaries(ParkedFilter(reason="other")) == []


async def test_an_agent_is_found_by_its_id_with_the_attempts_that_it_lost(store: Store) -> None:
    agent = agent_row("a\x001")
    await store.put_agents([agent])
    assert await store.agents_by_id(["a\x001", "none"]) == {"a\x001": agent}

    job = running_job(agent_id="a\x001", job_id=uuid4(), guarantee=Guarantee.IDEMPOTENT)
    await store.insert_jobs([job])
    lost = attempt_of(job, AttemptOutcome.LOST)
    again = replace(
        job, version=2, attempt=2, state=JobState.RETRYING, losses=1, agent_id=None, lease_until=None
    )
    await store.save_jobs([Save(again, attempt=lost)])
    assert await store.lost_attempts("a\x001", 5) == [lost]
    assert await store.lost_attempts("other", 5) == []
