"""A job is found by what people have of it: a part of its id, the id that its requester chose, or its key."""

from uuid import UUID, uuid4

from tests.store_rows import after, queued_job

from warrener_contracts.identity import job_id_of
from warrener_store import StateStore
from warrener_store.jobs.rows import JobRow

OLD = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")


async def insert_many(store: StateStore) -> None:
    """More jobs than any list has, all of them newer."""
    await store.insert_jobs([queued_job(accepted_at=after(10 + n)) for n in range(1_200)])


async def ids(store: StateStore, text: str, limit: int = 5) -> list[UUID]:
    return [row.job_id for row in await store.find_jobs(text, limit)]


async def test_an_old_job_is_found_by_the_beginning_or_the_end_of_its_id(store: StateStore) -> None:
    await store.insert_jobs([queued_job(job_id=OLD)])
    await insert_many(store)
    for text in ("456789ab", "0123456789AB", "01936f2e", "01936f2e-8a3b-7c", str(OLD), "9e5f-0123456789ab"):
        assert await ids(store, text) == [OLD], text
    for text in ("56789ab", "01936f2", "", "156789ab", "nonsense", "01936f2f"):
        assert await ids(store, text) == [], text


async def test_a_job_is_found_by_the_id_that_its_requester_chose(store: StateStore) -> None:
    shop, bank = (
        queued_job(job_id=job_id_of(source, "order-17"), source=source, accepted_at=after(n))
        for n, source in enumerate(("shop", "bank"))
    )
    other = queued_job(job_id=job_id_of("shop", "order-18"), source="shop")
    await store.insert_jobs([shop, other])
    await insert_many(store)
    assert await ids(store, "order-17") == [shop.job_id]
    await store.insert_jobs([bank])
    assert await ids(store, "order-17") == [bank.job_id, shop.job_id]
    assert await ids(store, "order-17", 1) == [bank.job_id]
    assert await ids(store, "order-1") == []


async def test_a_job_is_found_by_its_idempotency_key(store: StateStore) -> None:
    keys = ("invoice-17", "456789ab", "01936f2e-8a3b-7c4d-9e5f-0123456789ac", "50 % of a\x00 '\"\\key")
    keyed = [queued_job(idempotency_key=key) for key in keys]
    await store.insert_jobs(keyed)
    await insert_many(store)
    for row, key in zip(keyed, keys, strict=True):
        assert await ids(store, key) == [row.job_id], key
    for text in ("invoice-1", "INVOICE-17", "50 % of a"):
        assert await ids(store, text) == [], text


async def test_an_id_and_a_key_that_are_alike_name_two_jobs(store: StateStore) -> None:
    by_id = queued_job(job_id=OLD)
    by_key = queued_job(idempotency_key="456789ab", accepted_at=after(1))
    await store.insert_jobs([by_id, by_key])
    assert await ids(store, "456789ab") == [by_key.job_id, OLD]


async def test_all_jobs_that_are_alike_are_found_the_last_accepted_first(store: StateStore) -> None:
    alike: list[JobRow] = [
        queued_job(job_id=UUID(hex=f"{uuid4().hex[:24]}456789ab"), accepted_at=after(n)) for n in range(4)
    ]
    await store.insert_jobs(alike)
    assert await ids(store, "456789ab") == [row.job_id for row in reversed(alike)]
    assert await ids(store, "456789ab", 2) == [row.job_id for row in alike[:1:-1]]
