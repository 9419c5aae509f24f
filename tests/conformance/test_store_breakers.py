"""The stories of circuit breakers, alike in every state store."""

import asyncio
from dataclasses import replace

from tests.store_rows import NOON, after, breaker_row, changed, queued_job, succeeded, waiting_job

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore

BILLING = breaker_row(
    "dependency:billing-api",
    manual=True,
    until=after(30),
    times_opened=2,
    probes_succeeded=1,
    reason="being upgraded\x00",
    job_types=("flights.load", "flights.bill"),
    policy=BreakerPolicy(failure_rate=0.3, half_open_calls=3),
)


async def test_breakers_come_back_as_they_went(store: StateStore) -> None:
    mail = replace(BILLING, name="job:mail.send", until=None, manual=False, job_types=())
    assert await store.breakers() == []
    assert await store.put_breaker(mail)
    assert await store.put_breaker(BILLING)
    assert await store.breakers() == [BILLING, mail]


async def test_of_several_supervisors_one_changes_a_breaker(store: StateStore) -> None:
    put = await asyncio.gather(*(store.put_breaker(replace(BILLING, times_opened=n)) for n in range(5)))
    assert sum(put) == 1
    closed = replace(BILLING, version=2, state=BreakerState.CLOSED)
    put = await asyncio.gather(*(store.put_breaker(closed) for _ in range(5)))
    assert sum(put) == 1
    assert await store.breakers() == [closed]


async def test_a_version_that_does_not_follow_the_one_before_changes_nothing(store: StateStore) -> None:
    assert not await store.put_breaker(replace(BILLING, version=2))
    assert await store.breakers() == []
    assert await store.put_breaker(BILLING)
    assert not await store.put_breaker(replace(BILLING, version=3))
    assert await store.breakers() == [BILLING]


async def test_what_was_put_off_is_woken_the_first_due_first(store: StateStore) -> None:
    held = [waiting_job(due_at=after(-n), wake_at=after(600)) for n in (1, 3, 2)]
    await store.insert_jobs(held)
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 2) == 2
    woken = await store.claim_due([JobState.WAITING], NOON, after(10), 10)
    assert {row.job_id for row in woken} == {held[1].job_id, held[2].job_id}
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 1
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 0


async def test_jobs_of_a_paused_queue_stay_put_off(store: StateStore) -> None:
    held = [waiting_job(due_at=NOON, wake_at=after(600), queue=queue) for queue in ("loads", "mails")]
    await store.insert_jobs(held)
    assert (
        await store.release_held_jobs(["flights.load"], NOON, after(60), 10, paused=["loads", "bills"]) == 1
    )
    woken = await store.claim_due([JobState.WAITING], NOON, after(10), 10)
    assert [row.queue for row in woken] == ["mails"]


async def test_only_what_is_held_back_is_woken(store: StateStore) -> None:
    another_type = waiting_job(job_type="mail.send", due_at=NOON, wake_at=after(600))
    not_due = waiting_job(due_at=after(5), wake_at=after(5))
    queued = queued_job(wake_at=after(600))
    over = queued_job(wake_at=after(600))
    in_delay_queue = waiting_job(due_at=NOON, wake_at=after(15))
    await store.insert_jobs([another_type, not_due, queued, over, in_delay_queue])
    await store.save_jobs([succeeded(over)])
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 0
    assert await store.release_held_jobs([], NOON, after(60), 10) == 0


async def test_a_retry_that_was_put_off_is_woken_and_a_save_decided_before_is_not_applied(
    store: StateStore,
) -> None:
    row = queued_job()
    await store.insert_jobs([row])
    save = changed(row, state=JobState.RETRYING, attempt=2, due_at=NOON, wake_at=after(600))
    await store.save_jobs([save])
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 1
    assert await store.save_jobs([changed(save.row, failures=1)]) == set()
