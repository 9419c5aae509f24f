"""Jobs with unique keys, alike in every store."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from tests.store_access import load_job, opened_store
from tests.store_rows import NOON, after, changed, died, queued_job, succeeded, waiting_job

from warrener_contracts.policy import JobPolicy
from warrener_contracts.postgres_address import PostgresAddress
from warrener_contracts.state_machine import JobState
from warrener_contracts.unique import OnRepeat, Unique, debounce
from warrener_store import Store
from warrener_store.databases.address import parse_address
from warrener_store.jobs.rows import Inserted, JobRow
from warrener_store.jobs.unique import KeyPlan
from warrener_store.postgres import PostgresStore
from warrener_store.retention.rows import JobsBefore

ODD = "products\x00 \x1a \ud800 é 🐇 $1 'quoted' \\ \"x\""


def policy(*key: str, **options: Any) -> JobPolicy:
    return JobPolicy(unique=Unique(*(key or ("{{ arguments.index }}",)), **options))


REJECTED, FIRST, REPLACED = policy(), policy(repeat="first"), policy(repeat="replace")


def reindex(
    of: JobPolicy, index: str = "products", *, at: float = 0, queued: bool = False, **more: Any
) -> JobRow:
    fields = {"arguments": {"index": index}, "policy": of, "accepted_at": after(at), "due_at": after(at + 60)}
    if queued:
        return queued_job(**{**fields, "due_at": None, **more})
    return waiting_job(**{**fields, "wake_at": after(at + 60), "updated_at": after(at), **more})


async def insert(store: Store, *rows: JobRow) -> list[Inserted]:
    return await store.insert_jobs(rows)


async def counts(store: Store) -> dict[JobState, int]:
    return {one.state: one.jobs for one in await store.count_jobs() if one.jobs}


@pytest.mark.parametrize("index", ["products", ODD])
async def test_a_key_is_held_until_its_job_is_over(store: Store, index: str) -> None:
    first, repeat, other = reindex(REJECTED, index, queued=True), reindex(REJECTED, index), reindex(REJECTED)
    other = replace(other, arguments={"index": "orders"})
    assert await insert(store, first, repeat, other) == [
        Inserted(first, new=True),
        Inserted(first, new=False, repeat=OnRepeat.REJECT),
        Inserted(other, new=True),
    ]
    later = reindex(FIRST, index, at=5)
    assert await insert(store, later) == [Inserted(first, new=False, repeat=OnRepeat.FIRST)]
    assert await counts(store) == {JobState.QUEUED: 1, JobState.WAITING: 1}
    await store.save_jobs([succeeded(first)])
    assert await insert(store, later) == [Inserted(later, new=True)]
    key = await store.unique_key_of(later.job_id)
    assert key is not None
    assert (key.previous, key.replaced, key.since) == (first.job_id, None, after(5))
    assert await store.unique_key_of(first.job_id) is None


async def test_a_repeat_of_the_same_request_is_no_further_one(store: Store) -> None:
    first = reindex(REJECTED, queued=True)
    for _ in range(2):
        [answer] = await insert(store, first)
        assert (answer.row, answer.repeat) == (first, None)
    keyed = reindex(REJECTED, "orders", idempotency_key="k1")
    again = reindex(REJECTED, "orders", idempotency_key="k1")
    assert await insert(store, keyed, again) == [Inserted(keyed, new=True), Inserted(keyed, new=False)]
    assert await insert(store, again) == [Inserted(keyed, new=False)]


async def test_until_dispatched_a_job_that_was_queued_stands_in_nobodys_way(store: Store) -> None:
    of = policy(until="dispatched", repeat="reject")
    waits = reindex(of)
    assert [one.new for one in await insert(store, waits, reindex(of, at=1))] == [True, False]
    await store.save_jobs([changed(waits, state=JobState.QUEUED, attempt=1)])
    assert [one.new for one in await insert(store, reindex(of, at=2, queued=True))] == [True]
    assert [one.new for one in await insert(store, reindex(of, at=3))] == [True]


async def test_a_window_counts_from_the_acceptance_and_a_job_that_failed_frees_its_key(store: Store) -> None:
    of = policy(window="1m")
    first = reindex(of, queued=True)
    await insert(store, first)
    await store.save_jobs([succeeded(first)])
    assert [one.new for one in await insert(store, reindex(of, at=59))] == [False]
    second = reindex(of, at=60, queued=True)
    assert [one.new for one in await insert(store, second)] == [True]
    await store.save_jobs([died(second)])
    assert [one.new for one in await insert(store, reindex(of, at=61))] == [True]


async def test_a_waiting_job_is_replaced_in_the_same_transaction_and_is_due_to_be_cancelled(
    store: Store,
) -> None:
    first, second, third = (reindex(REPLACED, at=at) for at in (0, 1, 2))
    await insert(store, first)
    answers = await insert(store, second, third)
    assert [one.new for one in answers] == [True, True]
    assert answers[0].row.cancel_reason == f"replaced by job {third.job_id}"
    stored = await load_job(store, first.job_id)
    assert stored.cancel_reason == f"replaced by job {second.job_id}"
    assert (stored.version, stored.state) == (2, JobState.WAITING)
    key = await store.unique_key_of(third.job_id)
    assert key is not None
    assert (key.replaced, key.since) == (second.job_id, NOON)
    due = await store.claim_due([JobState.WAITING], after(3), after(13), 9)
    assert {row.job_id for row in due} == {first.job_id, second.job_id}
    # A dispatcher that had claimed it before starts nothing.
    assert await store.save_jobs([changed(first, state=JobState.QUEUED, attempt=1)]) == set()
    assert await counts(store) == {JobState.WAITING: 3}


async def test_a_job_that_has_begun_is_not_replaced(store: Store) -> None:
    of = policy(repeat="replace", until="finished")
    first = reindex(of)
    await insert(store, first)
    await store.save_jobs([changed(first, state=JobState.QUEUED, attempt=1)])
    [answer] = await insert(store, reindex(of, at=1))
    assert (answer.row.job_id, answer.repeat) == (first.job_id, OnRepeat.REPLACE)


async def test_each_repeat_puts_the_start_off_until_the_longest_time_has_passed(store: Store) -> None:
    of = policy(repeat=debounce("5s", longest="12s"))

    async def request(at: float, due: float) -> datetime | None:
        row = reindex(of, at=at, due_at=after(due), wake_at=after(due))
        [answer] = await insert(store, row)
        assert (await load_job(store, row.job_id)) == answer.row
        return answer.row.wake_at

    assert await request(0, 5) == after(5)
    assert await request(4, 9) == after(9)
    assert await request(8, 13) == after(12)
    assert await request(9, 300) == after(300), "a later time of the request itself stays"
    assert await request(20, 25) == after(12), "it keeps its place in the line of a limit"


async def test_arguments_are_compared_without_a_key_and_types_are_apart(store: Store) -> None:
    of = policy("")
    rows = [
        reindex(of, arguments={"a": 1, "b": [2]}),
        reindex(of, arguments={"b": [2], "a": 1}),
        reindex(of, arguments={"a": 1, "b": [3]}),
        reindex(of, arguments={"a": 1, "b": [2]}, job_type="search.other"),
    ]
    assert [one.new for one in await insert(store, *rows)] == [True, False, True, True]


async def test_a_key_goes_with_the_row_of_its_job(store: Store) -> None:
    first = reindex(policy(window="1h"), queued=True)
    await insert(store, first, queued_job())
    await store.save_jobs([succeeded(first)])
    which = JobsBefore(first.job_type, JobState.SUCCEEDED, after(100), after(100))
    assert await store.retention.delete_jobs(which, [first.job_id]) == 1
    assert await store.jobs_by_id([first.job_id]) == {}
    assert [one.new for one in await insert(store, reindex(policy(window="1h"), at=200))] == [True]


@pytest.mark.parametrize("of", [REJECTED, FIRST, REPLACED], ids=["reject", "first", "replace"])
async def test_of_requests_at_once_one_job_is_left(store: Store, store_url: str, of: JobPolicy) -> None:
    """Four services, batches that overlap in two keys, and requests that reach two of them."""
    rows = [
        reindex(of, f"i{number % 2}", at=number, due_at=after(99), wake_at=after(99)) for number in range(80)
    ]
    async with opened_store(store_url) as second, opened_store(store_url) as third:
        batches = [rows[at : at + 10] for at in range(0, 80, 5)]
        stores = [store, second, third]
        await asyncio.gather(*(stores[place % 3].insert_jobs(batch) for place, batch in enumerate(batches)))
    stored = await store.jobs_by_id([row.job_id for row in rows])
    live = [row for row in stored.values() if row.cancel_reason is None]
    assert sorted(row.arguments["index"] for row in live) == ["i0", "i1"]
    assert len(stored) == (80 if of is REPLACED else 2)
    replaced = {row.cancel_reason for row in stored.values()} - {None}
    assert len(replaced) == len(stored) - 2, "each of them by one other"
    keys = [await store.unique_key_of(row.job_id) for row in live]
    assert all(key is not None for key in keys)
    replaced_last = {key.replaced for key in keys if key is not None} - {None}
    assert replaced_last <= stored.keys()


class OvertakenStore(PostgresStore):
    """Others write between its reads and its insert."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def _insert_planned(self, plans: Sequence[KeyPlan]) -> set[UUID]:
        if (write := self.meanwhile) is not None:
            self.meanwhile = None
            await write()
        return await super()._insert_planned(plans)


@pytest.fixture
async def overtaken(postgres_store_url: str) -> AsyncGenerator[OvertakenStore]:
    address = parse_address(postgres_store_url)
    assert isinstance(address, PostgresAddress)
    store = OvertakenStore(address)
    await store.start()
    yield store
    await store.close()


async def test_a_job_that_begins_meanwhile_is_not_replaced(overtaken: OvertakenStore) -> None:
    of = policy(repeat="replace", until="finished")
    first, repeat = reindex(of), reindex(of, at=1)
    await insert(overtaken, first)
    overtaken.meanwhile = lambda: overtaken.save_jobs([changed(first, state=JobState.QUEUED, attempt=1)])
    [answer] = await insert(overtaken, repeat)
    assert (answer.row.job_id, answer.repeat) == (first.job_id, OnRepeat.REPLACE)
    assert (await load_job(overtaken, first.job_id)).cancel_reason is None
    assert await overtaken.jobs_by_id([repeat.job_id]) == {}


async def test_a_key_that_moves_meanwhile_is_read_again(overtaken: OvertakenStore) -> None:
    rows = [reindex(REPLACED, at=at) for at in range(4)]
    await insert(overtaken, rows[0])
    overtaken.meanwhile = lambda: overtaken.insert_jobs([rows[1]])
    assert [one.new for one in await insert(overtaken, rows[2], rows[3])] == [True, True]
    reasons = [(await load_job(overtaken, row.job_id)).cancel_reason for row in rows]
    assert reasons == [*(f"replaced by job {row.job_id}" for row in rows[1:]), None]


async def test_nothing_is_replaced_for_a_job_that_its_idempotency_key_keeps_out(
    overtaken: OvertakenStore,
) -> None:
    first = reindex(REPLACED)
    repeat, other = (reindex(REPLACED, index, at=1, idempotency_key="k1") for index in ("products", "orders"))
    await insert(overtaken, first)
    overtaken.meanwhile = lambda: overtaken.insert_jobs([other])
    [answer] = await insert(overtaken, repeat)
    assert (answer.row.job_id, answer.new, answer.repeat) == (other.job_id, False, None)
    assert (await load_job(overtaken, first.job_id)).cancel_reason is None
