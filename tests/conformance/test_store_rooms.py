"""What every store must answer to the pages of the console: lists with a limit, and the runs of schedules."""

from dataclasses import replace
from uuid import uuid4

from tests.conformance.test_schedules import schedule, tick
from tests.store_rows import (
    NOON,
    after,
    agent_row,
    attempt_of,
    died,
    parked_message,
    raised_incident,
    running_job,
    succeeded,
)

from warrener_contracts.events import TickStatus
from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.incidents.rows import IncidentFilter, IncidentPosition
from warrener_store.jobs.rows import AttemptOutcome, Save
from warrener_store.parked.rows import BEGINNING, ParkedAt, ParkedFilter
from warrener_store.schedules.rows import ScheduleFilter, ScheduleRow


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
    incidents = store.escalations
    raised = [raised_incident(f"f{number}", raised_at=after(number // 2)) for number in range(5)]
    await incidents.raise_incidents(raised)
    for closed in (False, True):
        seen: list[str] = []
        place: IncidentPosition | None = None
        while page := await incidents.incidents(IncidentFilter(closed=closed, after=place, limit=2)):
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
