"""What the ledger deletes and what it keeps, in SQLite and in PostgreSQL alike."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.conformance.ledger_rig import ENDED, LEASE, NOW, claim, done, failed, job, make_table

from warrener_agent.ledger import ClaimStatus, DeletedRows, Ledger, SavedCheckpoint


async def test_failures_are_forgotten_in_their_time(ledger: Ledger) -> None:
    old, young = job(), job()
    await claim(ledger, old, young)
    before = datetime.now(UTC) + timedelta(days=30)
    ended = replace(failed(young), finished_at=before + timedelta(hours=1))
    assert await ledger.fail([failed(old), ended], agent_id="ada") == {old.job_id, young.job_id}
    assert await ledger.delete_old(before) == DeletedRows(rows=1, completions=0)
    assert await claim(ledger, old, young) == [ClaimStatus.GRANTED, ClaimStatus.FAILED]


async def test_what_is_old_is_forgotten_and_nothing_else(ledger: Ledger) -> None:
    old, young, running = job(), job(), job()
    before = datetime.now(UTC) + timedelta(days=30)
    await ledger.claim([old, young, running], agent_id="ada", lease=timedelta(days=31))
    ended = done(young)._replace(finished_at=before + timedelta(minutes=1))
    assert await ledger.complete([done(old), ended], agent_id="ada") == {old.job_id, young.job_id}
    assert await forget_all(ledger, before) == (1, 1)
    answers = await claim(ledger, young, running, by="bob")
    assert answers == [ClaimStatus.COMPLETED, ClaimStatus.HELD]


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


async def test_forgetting_reaches_what_was_completed_in_a_transaction(ledger: Ledger) -> None:
    await make_table(ledger)
    _, completions = await forget_all(ledger, datetime.now(UTC) + timedelta(days=1))
    assert completions == 1


async def forget_all(ledger: Ledger, before: datetime) -> tuple[int, int]:
    """Rows and completions that went, batch after batch."""
    batch = await ledger.delete_old(before)
    rows, completions = batch.rows, batch.completions
    while batch.after is not None:
        batch = await ledger.delete_old(before, after=batch.after)
        rows, completions = rows + batch.rows, completions + batch.completions
    return rows, completions
