"""Lists of jobs, page by page, and jobs that are found by a text."""

import random
from uuid import UUID, uuid4

import pytest
from tests.store_rows import NOON, after, queued_job

from warrener_contracts.identity import child_job_id, job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore, UnknownJob
from warrener_store.jobs.rows import JobFilter, JobRow


def ids_of_both_kinds(count: int) -> list[UUID]:
    """As requests (in the order of time) and child jobs (in none) have them, mixed."""
    start = int(NOON.timestamp() * 1000)
    by_time = (UUID(int=start + n << 80 | 7 << 76 | 2 << 62 | n) for n in range(count))
    parent = uuid4()
    return [child_job_id(parent, str(n)) if n % 3 == 1 else job_id for n, job_id in enumerate(by_time)]


def shuffled(rows: list[JobRow]) -> list[JobRow]:
    return random.Random(13).sample(rows, len(rows))


@pytest.mark.parametrize("states", [(), (JobState.QUEUED, JobState.RUNNING)], ids=["all", "some"])
async def test_pages_neither_repeat_nor_skip_while_jobs_arrive(
    store: StateStore, states: tuple[JobState, ...]
) -> None:
    ids = ids_of_both_kinds(1000)
    rows = [queued_job(job_id=ids[n], accepted_at=after(n // 3), job_type=f"t.{n % 2}") for n in range(1000)]
    await store.insert_jobs(shuffled(rows))
    seen: list[JobRow] = []
    while page := await store.list_jobs(
        JobFilter(states=states, limit=70, before=seen[-1].job_id if seen else None)
    ):
        seen += page
        await store.insert_jobs([queued_job(accepted_at=after(1000 + len(seen))) for _ in range(50)])
    assert seen == sorted(rows, key=lambda row: (row.accepted_at, row.job_id), reverse=True)


async def test_a_page_behind_an_unknown_job_is_an_error_and_not_the_end(store: StateStore) -> None:
    await store.insert_jobs([queued_job()])
    unknown = uuid4()
    with pytest.raises(UnknownJob, match=f"last job of a page, got {unknown}"):
        await store.list_jobs(JobFilter(before=unknown))


OLD = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")


async def ids(store: StateStore, text: str, limit: int = 5) -> list[UUID]:
    return [row.job_id for row in await store.find_jobs(text, limit)]


async def test_an_old_job_is_found_by_its_id_the_id_of_its_request_or_its_key(store: StateStore) -> None:
    await store.insert_jobs([queued_job(job_id=OLD)])
    # More jobs than any list has, all of them newer.
    await store.insert_jobs([queued_job(accepted_at=after(10 + n)) for n in range(1_200)])
    for text in ("456789ab", "0123456789AB", "01936f2e", "01936f2e-8a3b-7c", str(OLD), "9e5f-0123456789ab"):
        assert await ids(store, text) == [OLD], text
    for text in ("56789ab", "01936f2", "", "156789ab", "nonsense", "01936f2f"):
        assert await ids(store, text) == [], text

    shop, bank = (
        queued_job(job_id=job_id_of(source, "order-17"), source=source, accepted_at=after(n))
        for n, source in enumerate(("shop", "bank"))
    )
    other = queued_job(job_id=job_id_of("shop", "order-18"), source="shop")
    await store.insert_jobs([shop, other])
    assert await ids(store, "order-17") == [shop.job_id]
    await store.insert_jobs([bank])
    assert await ids(store, "order-17") == [bank.job_id, shop.job_id]
    assert await ids(store, "order-17", 1) == [bank.job_id]
    assert await ids(store, "order-1") == []

    keys = ("invoice-17", "01936f2e-8a3b-7c4d-9e5f-0123456789ac", "50 % of a\x00 '\"\\key")
    keyed = [queued_job(idempotency_key=key) for key in keys]
    alike = queued_job(idempotency_key="456789ab", accepted_at=after(1))
    await store.insert_jobs([*keyed, alike])
    for row, key in zip(keyed, keys, strict=True):
        assert await ids(store, key) == [row.job_id], key
    twin = queued_job(source="another shop", idempotency_key="invoice-17", accepted_at=after(9))
    await store.insert_jobs([twin])
    assert await ids(store, "invoice-17") == [twin.job_id, keyed[0].job_id], "two sources have this key"
    for text in ("invoice-1", "INVOICE-17", "50 % of a"):
        assert await ids(store, text) == [], text
    assert await ids(store, "456789ab") == [alike.job_id, OLD], "a key and an id name two jobs"


async def test_all_jobs_that_are_alike_are_found_the_last_accepted_first(store: StateStore) -> None:
    alike: list[JobRow] = [
        queued_job(job_id=UUID(hex=f"{uuid4().hex[:24]}456789ab"), accepted_at=after(n)) for n in range(4)
    ]
    await store.insert_jobs(alike)
    assert await ids(store, "456789ab") == [row.job_id for row in reversed(alike)]
    assert await ids(store, "456789ab", 2) == [row.job_id for row in alike[:1:-1]]
