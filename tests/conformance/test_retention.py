"""What is old goes and what lives stays, alike in every store."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from tests.conformance.test_schedules import schedule, tick
from tests.conformance.test_ticks import expecting
from tests.store_rows import (
    NOON,
    after,
    agent_row,
    died,
    job_type_row,
    parked_message,
    queued_job,
    raised_incident,
    recorded_action,
    redrive_row,
    running_job,
    succeeded,
    waiting_job,
)

from warrener_contracts.events import TickStatus
from warrener_contracts.identity import schedule_source, undo_source
from warrener_contracts.state_machine import JobState
from warrener_store.audit.rows import AuditOutcome
from warrener_store.dead_letters.rows import (
    DeadLetterFilter,
    DeadLetterState,
    DeadLetterTransition,
    RedriveState,
)
from warrener_store.incidents.rows import IncidentChange, IncidentFilter, PolicyVersionRow
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import CancelledTree, CheckpointRow
from warrener_store.retention.rows import JobsBefore, RetentionKind
from warrener_store.schedules.rows import WatchRow
from warrener_store.store import Store

DAY = 86_400.0
OLD = JobsBefore("flights.load", JobState.SUCCEEDED, after(DAY), after(DAY))
OLD_DEAD = replace(OLD, state=JobState.DEAD)


async def ended(store: Store, *rows: JobRow, dead: bool = False) -> list[UUID]:
    """These jobs, over after a minute."""
    await store.insert_jobs(rows)
    await store.save_jobs([died(row) if dead else succeeded(row) for row in rows])
    return [row.job_id for row in rows]


async def free(store: Store, which: JobsBefore = OLD) -> set[UUID]:
    """The jobs that may go, page by page."""
    page = await store.old_jobs(which, None, 2)
    found = set(page.job_ids)
    while page.after is not None:
        page = await store.old_jobs(which, page.after, 2)
        found |= set(page.job_ids)
    return found


async def test_old_jobs_go_with_all_that_belongs_to_them_and_young_ones_stay(store: Store) -> None:
    (old, second) = await ended(store, running_job(idempotency_key="k"), running_job())
    young = running_job(accepted_at=after(1))
    await store.insert_jobs([young])
    save = succeeded(young)
    await store.save_jobs([replace(save, row=replace(save.row, finished_at=after(2 * DAY)))])
    await store.keep_checkpoints(
        [CheckpointRow(job_id=old, attempt=1, number=1, state={"n": 1}, saved_at=after(1))]
    )
    await store.mark_cancelled([CancelledTree(job_id=old, reason="test", cancelled_at=after(1))])
    assert await free(store) == {old, second}
    assert [one.attempt for one in await store.attempts_of([old])] == [1]
    assert (await store.checkpoints_of([old])).keys() == {old}
    assert await store.delete_jobs(OLD, [old, second, young.job_id, uuid4()]) == 2
    assert set(await store.jobs_by_id([old, second, young.job_id])) == {young.job_id}
    assert await store.attempts_of([old]) == []
    assert await store.checkpoints_of([old]) == {}
    assert await store.cancelled_among([old]) == {}
    assert [(one.state, one.jobs) for one in await store.count_jobs()] == [(JobState.SUCCEEDED, 1)]
    (again,) = await store.insert_jobs([queued_job(idempotency_key="k")])
    assert again.new, "its key went with it"
    assert await store.delete_jobs(OLD, [old, second]) == 0


async def test_a_job_that_undid_a_call_stays_until_its_workflow_has_gone_and_does_not_hold_it(
    store: Store,
) -> None:
    (workflow,) = await ended(store, running_job(), dead=True)
    child = running_job(parent_id=workflow)
    undo, live = (running_job(parent_id=workflow, source=undo_source(workflow)) for _ in range(2))
    await ended(store, child, undo)
    await store.insert_jobs([live])
    assert await free(store) == {child.job_id}
    assert await store.delete_jobs(OLD, [child.job_id, undo.job_id]) == 1
    assert await free(store, OLD_DEAD) == set(), "one still runs"
    await store.save_jobs([succeeded(live)])
    assert await store.delete_jobs(OLD_DEAD, [workflow]) == 1
    assert await free(store) == {undo.job_id, live.job_id}


async def test_other_types_and_states_and_what_is_not_over_stay(store: Store) -> None:
    await ended(store, running_job(job_type="other"))
    await ended(store, running_job(), dead=True)
    live = [waiting_job(), queued_job(), running_job()]
    await store.insert_jobs(live)
    assert await free(store) == set()
    ids = [row.job_id for row in live]
    assert await store.delete_jobs(OLD, ids) == 0
    assert len(await store.jobs_by_id(ids)) == 3


async def test_a_tree_goes_from_its_leaves_up_and_only_when_no_part_of_it_lives(store: Store) -> None:
    root, parent = running_job(), queued_job()
    (root_id,) = await ended(store, root)
    await store.insert_jobs([parent])
    leaf = running_job(parent_id=root_id)
    live = running_job(parent_id=root_id)
    grandchild = running_job(parent_id=leaf.job_id)
    of_live = running_job(parent_id=parent.job_id)
    await ended(store, leaf, grandchild, of_live)
    await store.insert_jobs([live])
    assert await free(store) == {grandchild.job_id}, "its parent is over, the other one's is not"
    for expected in (grandchild, leaf):
        assert await free(store) == {expected.job_id}
        assert await store.delete_jobs(OLD, [root_id, leaf.job_id, expected.job_id]) == 1
    assert await free(store) == set(), "the root has a child that runs"
    await store.save_jobs([succeeded(live)])
    assert await free(store) == {live.job_id}


async def test_a_key_may_hold_its_job_longer_and_may_be_released_earlier(store: Store) -> None:
    (keyed, plain) = await ended(store, running_job(idempotency_key="k"), running_job())
    longer = replace(OLD, keyed=after(-1))
    assert await free(store, longer) == {plain}
    assert await store.delete_jobs(longer, [keyed]) == 0
    live = queued_job(idempotency_key="live")
    await store.insert_jobs([live])
    answers = await store.insert_jobs(
        [queued_job(idempotency_key="k"), queued_job(idempotency_key="live")],
        without_keys=[keyed, plain, live.job_id, uuid4()],
    )
    assert [answer.new for answer in answers] == [True, False]
    assert (await store.jobs_by_id([keyed]))[keyed].idempotency_key is None


REDRIVE = redrive_row(state=RedriveState.ROLLING, wake_at=None)


async def move(store: Store, job_id: UUID, version: int, **changes: Any) -> None:
    (dead_letter,) = await store.list_dead_letters(DeadLetterFilter(states=(), job_ids=(job_id,)))
    moved = replace(dead_letter, redrive_id=REDRIVE.redrive_id, **changes)
    step = replace(REDRIVE, version=version)
    assert await store.save_redrive(step, [DeadLetterTransition(dead_letter.state, moved)])


async def test_what_a_redrive_has_in_hand_stays(store: Store) -> None:
    (dead,) = await ended(store, running_job(), dead=True)
    (heir,) = await ended(store, running_job())
    await store.save_redrive(REDRIVE)
    assert await free(store, OLD_DEAD) == {dead}
    await move(store, dead, 2, state=DeadLetterState.CLAIMED)
    assert await store.delete_jobs(OLD_DEAD, [dead]) == 0
    await move(store, dead, 3, state=DeadLetterState.REDRIVEN, redriven_as=heir, redriven_at=after(1))
    assert (await free(store, OLD_DEAD), await free(store)) == (set(), set())
    assert await store.delete_jobs(OLD, [heir]) == 0
    assert await old_keys(store, RetentionKind.REDRIVES) == set()
    await move(store, dead, 4, state=DeadLetterState.SUCCEEDED)
    assert (await free(store, OLD_DEAD), await free(store)) == ({dead}, {heir})
    assert await store.delete_jobs(OLD_DEAD, [dead]) == 1
    assert await store.list_dead_letters(DeadLetterFilter(states=())) == []
    assert await gone(store, RetentionKind.REDRIVES) == 1
    assert await store.redrives() == []


async def test_a_job_that_an_open_incident_names_stays(store: Store) -> None:
    row = running_job()
    await store.insert_jobs([row])
    save = died(row)
    assert save.dead_letter is not None
    await store.save_jobs([replace(save, dead_letter=replace(save.dead_letter, fingerprint="f1"))])
    await store.raise_incidents([raised_incident("f1", str(row.job_id))])
    assert await free(store, OLD_DEAD) == set()
    assert await store.delete_jobs(OLD_DEAD, [row.job_id]) == 0
    await store.change_incidents([IncidentChange(fingerprint="f1", at=after(2), close_reason="mended")])
    assert await free(store, OLD_DEAD) == {row.job_id}


async def test_an_incident_names_no_job_any_more_when_the_occurrence_is_old(store: Store) -> None:
    await store.raise_incidents([raised_incident("f1", str(n)) for n in range(5)])
    await store.raise_incidents([raised_incident("f1", "young", raised_at=after(2 * DAY))])
    for count in (3, 2):
        old = await store.old_occurrences(after(DAY), 3)
        assert {(one.fingerprint, one.raised_at) for one in old} == {("f1", raised_incident("f1").raised_at)}
        assert len(old) == count
        assert await store.delete_occurrences([one.key for one in old]) == count
    assert await store.delete_occurrences([("f1", "unknown")]) == 0
    assert [entry.occurrence for entry in await store.pending("f1", 1, 10)] == ["young"]
    (incident,) = await store.incidents()
    assert incident.times == 6


async def test_closed_incidents_go_once_their_occurrences_are_gone(store: Store) -> None:
    await store.raise_incidents([raised_incident("open"), raised_incident("closed"), raised_incident("late")])
    closed = IncidentChange(fingerprint="closed", at=after(1), close_reason="mended")
    await store.change_incidents([closed, replace(closed, fingerprint="late", at=after(2 * DAY))])
    assert await old_keys(store, RetentionKind.INCIDENTS) == set()
    old = await store.old_occurrences(after(DAY), 100)
    await store.delete_occurrences([one.key for one in old])
    assert await gone(store, RetentionKind.INCIDENTS) == 1
    left = await store.incidents(IncidentFilter(closed=True))
    assert {incident.fingerprint for incident in left} == {"open", "late"}


async def test_parked_messages_agents_and_records_of_actions_go(store: Store) -> None:
    messages = [parked_message(f"p{n}", parked_at=after(n * DAY / 2)) for n in range(4)]
    agents = [agent_row(f"a{n}", last_seen_at=after(n * DAY / 2)) for n in range(4)]
    await store.park(messages)
    await store.put_agents(agents)
    assert await gone(store, RetentionKind.PARKED) == 2
    assert await gone(store, RetentionKind.AGENTS) == 2
    assert [message.parked_id for message in await store.parked()] == ["p3", "p2"]
    assert [agent.agent_id for agent in await store.agents()] == ["a3", "a2"]
    assert await store.delete_rows(RetentionKind.AGENTS, after(DAY), ["a3"]) == 0, "it was seen since"

    for number in range(4):
        await store.record_action(recorded_action(f"job {number}", recorded_at=after(number * DAY / 2)))
    first, *_ = await store.audit_records(limit=10)
    await store.complete_action(first.record_id, AuditOutcome.ACCEPTED, "done", after(3 * DAY))
    assert await gone(store, RetentionKind.AUDIT_RECORDS) == 2, "completed or not"
    assert [record.subject for record in await store.audit_records()] == ["job 3", "job 2"]


async def test_versions_of_policies_go_that_no_supervisor_has_seen_lately_and_no_incident_follows(
    store: Store,
) -> None:
    versions = [
        PolicyVersionRow(version=name, name="p", definition={}, first_seen_at=NOON, last_seen_at=after(seen))
        for name, seen in (("old", 0), ("followed", 0), ("young", 2 * DAY))
    ]
    await store.put_policies(versions)
    await store.raise_incidents([raised_incident()])
    (incident,) = await store.claim_incidents(NOON, after(30), "me", 1)
    await store.save_incident(replace(incident, policy_version="followed"))
    assert await old_keys(store, RetentionKind.ESCALATION_POLICIES) == {"old"}
    assert await gone(store, RetentionKind.ESCALATION_POLICIES) == 1
    assert {row.version for row in await store.policies()} == {"followed", "young"}


async def test_job_types_go_that_have_no_job_left_to_run(store: Store) -> None:
    names = ("flights.load", "busy", "young")
    await store.put_job_types(
        [job_type_row(name, announced_at=after(2 * DAY if name == "young" else 0)) for name in names]
    )
    done, busy = running_job(), running_job(job_type="busy")
    await ended(store, done)
    await store.insert_jobs([busy])
    assert await old_keys(store, RetentionKind.JOB_TYPES) == {"flights.load"}
    assert await store.delete_rows(RetentionKind.JOB_TYPES, after(DAY), ["flights.load", "busy"]) == 1
    assert set(await store.job_types()) == {"busy", "young"}
    assert {(one.job_type, one.state) for one in await store.count_jobs()} == {
        ("flights.load", JobState.SUCCEEDED),
        ("busy", JobState.RUNNING),
    }


async def test_the_runs_that_a_schedule_looks_back_at_are_in_use(store: Store) -> None:
    jobs = [running_job(source=schedule_source("hourly")) for _ in range(6)]
    await store.insert_jobs(jobs)
    await store.save_jobs([succeeded(row) if n in {1, 3} else died(row) for n, row in enumerate(jobs)])
    rows = [
        tick("hourly", n, status=TickStatus.FIRED, job_id=row.job_id, wake_at=None, request=None)
        for n, row in enumerate(jobs)
    ]
    await store.put_schedules([schedule(last_job_id=jobs[0].job_id)])
    await store.add_ticks(rows)
    ids = [row.job_id for row in jobs]
    (unknown,) = await ended(store, running_job(source=schedule_source("unknown")))
    assert await free(store) | await free(store, OLD_DEAD) == {ids[1], ids[2], ids[4], ids[5], unknown}
    await store.put_schedules([expecting("hourly", 1)])
    watch = WatchRow(name="hourly", pause_after=3, since=after(1), check_at=after(1))
    await store.note_successes([replace(watch, last_success_tick=after(3), last_success_at=after(60))])
    assert await free(store) | await free(store, OLD_DEAD) == {ids[1], ids[2], unknown}
    await store.remove_schedules(["hourly"], after(100))
    assert await free(store) | await free(store, OLD_DEAD) == {*ids, unknown}


async def test_where_there_is_nothing_nothing_goes(store: Store) -> None:
    for kind in RetentionKind:
        assert await old_keys(store, kind) == set()
        assert await store.delete_rows(kind, after(DAY), []) == 0


async def old_keys(store: Store, kind: RetentionKind) -> set[str]:
    page = await store.old_rows(kind, after(DAY), None, 1)
    found = set(page.rows)
    while page.after is not None:
        page = await store.old_rows(kind, after(DAY), page.after, 1)
        found |= set(page.rows)
    return found


async def gone(store: Store, kind: RetentionKind) -> int:
    return await store.delete_rows(kind, after(DAY), await old_keys(store, kind))
