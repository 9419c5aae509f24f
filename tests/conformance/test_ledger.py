"""Opening a ledger, what it stores, saves and deletes, in SQLite and in PostgreSQL alike."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.conformance.ledger_rig import ENDED, LEASE, NOW, claim, done, failed, job, make_table, recorded

from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import Claim, ClaimResult, ClaimStatus, Ledger, LedgerError, SavedCheckpoint
from warrener_agent.ledger.rows import highest_attempts


@pytest.mark.parametrize("by_transaction", [True, False])
async def test_results_may_be_big_and_hold_anything_that_json_can(
    ledger: Ledger, *, by_transaction: bool
) -> None:
    mine = job()
    await claim(ledger, mine)
    odd: dict[str, Any]
    odd = {"nul": "a\x00b", "surrogate": "\ud800", "big": "ü" * 900_000, "deep": [[[[{}]]]], "n": 2**60}
    if by_transaction:
        async with ledger.transaction(mine, agent_id="ada") as transaction:
            assert await transaction.complete(done(mine, odd))
    else:
        assert await ledger.complete([done(mine, odd)], agent_id="ada") == {mine.job_id}
    assert (await recorded(ledger, mine)).result == odd


async def test_what_is_recorded_outlives_the_process(ledger_url: str) -> None:
    mine: Claim = job()
    async with connected_ledger(ledger_url) as ledger:
        await claim(ledger, mine)
        await ledger.complete([done(mine, "kept")], agent_id="ada")
    async with connected_ledger(ledger_url) as ledger:
        assert (await recorded(ledger, mine)).result == "kept"


async def test_starting_at_once_in_several_processes_makes_the_tables_once(ledger_url: str) -> None:
    ledgers = [open_ledger(ledger_url) for _ in range(6)]
    await asyncio.gather(*(ledger.start() for ledger in ledgers))
    await asyncio.gather(*(ledger.ping() for ledger in ledgers))
    await asyncio.gather(*(ledger.close() for ledger in ledgers))


async def test_a_closed_ledger_is_reported_as_closed_and_may_be_closed_twice(ledger_url: str) -> None:
    ledger = open_ledger(ledger_url)
    await ledger.close()
    await ledger.start()
    await ledger.close()
    await ledger.close()
    with pytest.raises(LedgerError, match="call start"):
        await ledger.ping()


def test_a_url_that_means_no_ledger_is_refused() -> None:
    for wrong in ("mysql://x", "sqlite://", "sqlite:///:memory:", ""):
        with pytest.raises(ValueError, match="expected a ledger URL"):
            open_ledger(wrong)


def test_claims_are_sorted_by_job() -> None:
    """Two agents that lock the same rows in different orders would wait for each other for ever."""
    claims = [Claim(UUID(int=number), 1) for number in (3, 1, 2)]
    assert [one.job_id.int for one in highest_attempts(claims)] == [1, 2, 3]


# -- checkpoints -------------------------------------------------------------------------------------------


async def save(ledger: Ledger, claim: Claim, number: int, state: str, by: str = "ada") -> bool:
    saved = SavedCheckpoint(*claim, number, state)
    return await ledger.save_checkpoints([saved], agent_id=by, now=NOW) == {claim.job_id}


@pytest.mark.parametrize("attempt", [1, 2], ids=["the same attempt", "a later one"])
async def test_who_takes_a_job_over_finds_what_its_last_holder_saved(ledger: Ledger, attempt: int) -> None:
    mine, other = job(), job()
    assert await ledger.claim([mine], agent_id="ada", lease=ENDED) == [ClaimResult(ClaimStatus.GRANTED)]
    assert await save(ledger, mine, 1, '{"row":5}')
    assert await save(ledger, mine, 2, '{"row":9, "note":"a b"}')
    taken = mine._replace(attempt=attempt)
    last = SavedCheckpoint(*taken, 2, '{"row":9, "note":"a b"}')
    assert await ledger.claim([taken, other], agent_id="bob", lease=ENDED) == [
        ClaimResult(ClaimStatus.GRANTED, checkpoint=last),
        ClaimResult(ClaimStatus.GRANTED),
    ]


async def test_only_the_holder_of_a_claim_that_goes_on_saves_checkpoints(ledger: Ledger) -> None:
    mine, cancelled = job(), job()
    second, third = mine._replace(attempt=2), mine._replace(attempt=3)
    await claim(ledger, mine, cancelled, lease=ENDED)
    assert await save(ledger, mine, 1, "5")
    await claim(ledger, second, by="bob", lease=ENDED)
    assert not await save(ledger, mine, 2, "666"), "superseded"
    assert not await save(ledger, second, 2, "666"), "held by another"
    assert not await save(ledger, job(), 1, "666"), "never claimed"
    await ledger.cancel([cancelled.job_id], now=NOW)
    assert not await save(ledger, cancelled, 1, "5")
    assert await save(ledger, second, 2, "7", by="bob")
    (granted,) = await ledger.claim([third], agent_id="eve", lease=LEASE)
    assert granted.checkpoint == SavedCheckpoint(*third, 2, "7")
    assert await ledger.complete([done(third)], agent_id="eve") == {mine.job_id}
    assert await claim(ledger, mine._replace(attempt=4)) == [ClaimStatus.COMPLETED], "whatever was saved"


# -- deletion ----------------------------------------------------------------------------------------------


async def test_what_is_old_is_forgotten_and_nothing_else(ledger: Ledger) -> None:
    await make_table(ledger)  # by a transaction
    old, young, running, lost, young_lost = jobs = [job() for _ in range(5)]
    before = datetime.now(UTC) + timedelta(days=30)
    after = before + timedelta(minutes=1)
    await ledger.claim(jobs, agent_id="ada", lease=timedelta(days=31))
    ended = done(young)._replace(finished_at=after)
    assert await ledger.complete([done(old), ended], agent_id="ada") == {old.job_id, young.job_id}
    failures = [failed(lost), replace(failed(young_lost), finished_at=after)]
    assert await ledger.fail(failures, agent_id="ada") == {lost.job_id, young_lost.job_id}
    _, completions = await forget_all(ledger, before)  # SQLite counts a claim and its completion
    assert completions == 2
    answers = await claim(ledger, young, running, lost, young_lost, by="bob")
    assert answers == [ClaimStatus.COMPLETED, ClaimStatus.HELD, ClaimStatus.GRANTED, ClaimStatus.FAILED]


async def test_what_was_released_or_cancelled_or_lost_long_ago_is_forgotten(ledger: Ledger) -> None:
    released, lost = job(3), job(3)
    await claim(ledger, released, lost)
    await ledger.release([released], agent_id="ada")
    cancelled = job()
    await ledger.cancel([cancelled.job_id], now=datetime.now(UTC))
    assert await forget_all(ledger, datetime.now(UTC) - timedelta(days=7)) == (0, 0)
    assert await claim(ledger, released._replace(attempt=2)) == [ClaimStatus.SUPERSEDED]
    assert await forget_all(ledger, datetime.now(UTC) + timedelta(days=7)) == (3, 0)
    again = [one._replace(attempt=1) for one in (released, lost, cancelled)]
    assert await claim(ledger, *again, by="bob") == [ClaimStatus.GRANTED] * 3


async def test_it_is_forgotten_in_batches_and_what_lives_between_them_stays(ledger: Ledger) -> None:
    before = datetime.now(UTC) + timedelta(days=30)
    claims = [job() for _ in range(25)]
    for one in claims:  # each at a moment of its own, as the claims of a batch share theirs
        await ledger.claim([one], agent_id="ada", lease=ENDED)
    alive = claims[::5]
    await ledger.renew(alive, agent_id="ada", lease=timedelta(days=31))
    batches = [await ledger.delete_old(before, limit=10)]
    while batches[-1].after is not None:
        batches.append(await ledger.delete_old(before, after=batches[-1].after, limit=10))
    assert sum(batch.rows for batch in batches) == 20
    assert len(batches) >= 3
    assert await claim(ledger, *alive, by="bob") == [ClaimStatus.HELD] * 5


async def test_a_checkpoint_goes_with_its_claim_and_not_before(ledger: Ledger) -> None:
    mine = job()
    await claim(ledger, mine)
    saved = SavedCheckpoint(mine.job_id, 1, 1, '"half"')
    assert await ledger.save_checkpoints([saved], agent_id="ada", now=NOW - timedelta(days=60))
    before = datetime.now(UTC) + timedelta(days=30)
    await ledger.renew([mine], agent_id="ada", lease=timedelta(days=31))
    assert await forget_all(ledger, before) == (0, 0)
    (granted,) = await ledger.claim([mine], agent_id="ada", lease=LEASE)
    assert granted.checkpoint is not None
    assert await forget_all(ledger, before) == (1, 0)
    (granted,) = await ledger.claim([mine], agent_id="ada", lease=LEASE)
    assert granted.checkpoint is None


async def forget_all(ledger: Ledger, before: datetime) -> tuple[int, int]:
    batch = await ledger.delete_old(before)
    rows, completions = batch.rows, batch.completions
    while batch.after is not None:
        batch = await ledger.delete_old(before, after=batch.after)
        rows, completions = rows + batch.rows, completions + batch.completions
    return rows, completions
