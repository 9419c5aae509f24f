"""Opening a ledger, what outlives it, and what a result may hold, in SQLite and in PostgreSQL alike."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.conformance.ledger_rig import claim, done, job, recorded

from warrener_agent.ledger import Claim, Ledger, LedgerError, connected_ledger, open_ledger
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
