"""The stories of duties that one process at a time carries out, alike in every state store."""

import asyncio

from tests.store_rows import after

from warrener_store import StateStore


async def test_one_holder_at_a_time_and_a_claim_ends(store: StateStore) -> None:
    assert await store.claim_duty("pruning", "ada", after(0), after(10))
    assert not await store.claim_duty("pruning", "bob", after(5), after(15))
    assert await store.claim_duty("pruning", "ada", after(8), after(18))
    assert not await store.claim_duty("pruning", "bob", after(15), after(25))
    assert await store.claim_duty("pruning", "bob", after(18), after(28))
    assert not await store.claim_duty("pruning", "ada", after(20), after(30))


async def test_duties_are_claimed_apart(store: StateStore) -> None:
    assert await store.claim_duty("pruning", "ada", after(0), after(10))
    assert await store.claim_duty("metrics", "bob", after(0), after(10))
    assert not await store.claim_duty("metrics", "ada", after(1), after(11))


async def test_of_several_holders_one_gets_the_duty(store: StateStore) -> None:
    claims = (store.claim_duty("metrics", f"holder {n}", after(0), after(10)) for n in range(5))
    assert sum(await asyncio.gather(*claims)) == 1


async def test_the_claims_that_are_in_force_have_holders(store: StateStore) -> None:
    assert await store.duties(after(0)) == {}
    assert await store.claim_duty("pruning", "ada", after(0), after(10))
    assert await store.claim_duty("metrics", "bob", after(0), after(20))
    assert await store.duties(after(5)) == {"metrics": "bob", "pruning": "ada"}
    assert await store.duties(after(10)) == {"metrics": "bob"}, "a claim ends at its time"
