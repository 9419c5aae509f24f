"""How many dispatches are gone, by two looks."""

from datetime import timedelta
from uuid import UUID

import pytest
from services.supervisor.tests.event_factory import NOW, make

from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.views import QueuedGroup
from warrener_supervisor.decisions.missing_dispatches import (
    DelayedMessages,
    MissingDispatches,
    QueueSnapshot,
    find_missing,
    jobs_to_fill,
    messages_needed,
)

LATER = NOW + timedelta(seconds=5)


def job(number: int) -> UUID:
    return UUID(int=number)


def snapshot(
    waiting: range,
    ready: int,
    *,
    delayed: int = 0,
    slots: int = 0,
    every: int | None = None,
    late: bool = False,
) -> QueueSnapshot:
    oldest = {job(n): NOW - timedelta(minutes=1) + timedelta(milliseconds=n) for n in waiting}
    settled = len(waiting)
    return QueueSnapshot(
        NOW, settled, settled if every is None else every, ready, DelayedMessages(delayed), slots, oldest
    )


def compared(before: QueueSnapshot, now: QueueSnapshot) -> MissingDispatches:
    return find_missing(before, now._replace(at=LATER))


def test_a_backlog_is_no_loss() -> None:
    assert not compared(snapshot(range(400), 400), snapshot(range(8, 400), 392)).messages
    assert not compared(snapshot(range(10), 4, delayed=6), snapshot(range(10), 4, delayed=6)).messages


def test_what_is_still_in_transit_is_no_loss() -> None:
    """More than the queue holds at each look, but other jobs each time."""
    assert not compared(snapshot(range(20), 10, slots=8), snapshot(range(20, 40), 10, slots=8)).jobs


def test_a_purge_is_certain_and_takes_what_follows_too() -> None:
    gone = compared(snapshot(range(50), 0), snapshot(range(50), 0))
    assert gone == MissingDispatches(50, tuple(map(job, range(50))), beyond=True)


def test_free_slots_may_be_about_to_begin_some() -> None:
    gone = compared(snapshot(range(50), 10, slots=8), snapshot(range(50), 10, slots=8))
    assert gone.messages == 32


def test_in_a_queue_that_stays_empty_what_waits_is_gone() -> None:
    gone = compared(snapshot(range(3), 0, slots=8), snapshot(range(3), 0, slots=8))
    assert gone == MissingDispatches(3, tuple(map(job, range(3))))


def test_what_passes_by_the_shortest_delay_queue_hides_nothing_from_idle_agents() -> None:
    idle, busy = snapshot(range(3), 0, delayed=20, slots=8), snapshot(range(3), 0, delayed=20)
    assert compared(idle, idle) == MissingDispatches(3, tuple(map(job, range(3))))
    assert not compared(busy, busy).messages, "agents without free slots put messages there"
    retries = idle._replace(delayed=DelayedMessages(0, longer=20))
    assert not compared(retries, retries).messages


def test_what_is_overtaken_is_gone_where_a_message_is_missing() -> None:
    before = snapshot(range(100), 98, slots=8)
    after = snapshot(range(100), 78, slots=8)
    after = after._replace(
        settled=80, every=80, oldest={each: at for each, at in after.oldest.items() if not 2 <= each.int < 22}
    )
    assert compared(before, after) == MissingDispatches(2, (job(0), job(1)))
    accounted = after._replace(ready=80)
    assert not compared(before._replace(ready=100), accounted).messages, "sent to the back, and not lost"


def test_what_was_dispatched_since_was_not_there_before() -> None:
    again = {each: at + timedelta(minutes=1) for each, at in snapshot(range(3), 0).oldest.items()}
    assert compared(snapshot(range(3), 0), snapshot(range(3), 0)._replace(oldest=again)).jobs == ()


@pytest.mark.parametrize(("dispatch_batch", "jobs", "messages"), [(1, 5, 5), (16, 33, 3), (16, 32, 2)])
def test_jobs_that_share_messages_need_fewer(dispatch_batch: int, jobs: int, messages: int) -> None:
    group = QueuedGroup("t", JobPolicy(dispatch_batch=dispatch_batch), jobs, 0)
    assert messages_needed([group]) == (0, messages)
    assert messages_needed([group, group._replace(settled=1)]) == (1, 2 * messages)


def test_so_many_jobs_are_chosen_as_fill_the_messages() -> None:
    many = JobPolicy(dispatch_batch=4)
    rows = [make(JobState.QUEUED, policy=many, attempt=1) for _ in range(10)]
    assert len(jobs_to_fill(2, rows)) == 8
    assert len(jobs_to_fill(2, [make(JobState.QUEUED, policy=many, attempt=2) for _ in range(10)])) == 2
    assert len(jobs_to_fill(100, rows)) == 10
