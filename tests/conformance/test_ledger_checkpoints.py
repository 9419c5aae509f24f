"""The stories of checkpoints that every ledger tells alike."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.conformance.ledger_rig import ENDED, NOW
from tests.simulation.memory_ledger import MemoryLedger

from warrener_agent.ledger import (
    Claim,
    ClaimResult,
    ClaimStatus,
    Completion,
    Ledger,
    SavedCheckpoint,
    connected_ledger,
)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    if request.param == "memory":
        yield MemoryLedger()
        return
    is_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/ledger.db" if is_file else request.getfixturevalue("postgres_url")
    async with connected_ledger(url) as opened:
        yield opened


async def claim(ledger: Ledger, job: UUID, attempt: int = 1, agent: str = "a1") -> ClaimResult:
    (granted,) = await ledger.claim([Claim(job, attempt)], agent_id=agent, lease=ENDED)
    return granted


async def save(ledger: Ledger, saved: SavedCheckpoint, agent: str = "a1") -> bool:
    return saved.job_id in await ledger.save_checkpoints([saved], agent_id=agent, now=NOW)


async def test_a_fresh_claim_brings_nothing_along(ledger: Ledger) -> None:
    assert await claim(ledger, uuid4()) == ClaimResult(ClaimStatus.GRANTED)


async def test_who_takes_an_attempt_over_finds_what_its_last_holder_saved(ledger: Ledger) -> None:
    job, other = uuid4(), uuid4()
    await claim(ledger, job)
    assert await save(ledger, SavedCheckpoint(job, 1, 1, '{"row":5}'))
    assert await save(ledger, SavedCheckpoint(job, 1, 2, '{"row":9, "note":"a b"}'))
    granted = await ledger.claim([Claim(job, 1), Claim(other, 1)], agent_id="a2", lease=ENDED)
    checkpoint = granted[0].checkpoint
    assert [one.status for one in granted] == [ClaimStatus.GRANTED, ClaimStatus.GRANTED]
    assert checkpoint is not None
    assert (checkpoint.number, checkpoint.state_text) == (2, '{"row":9, "note":"a b"}')
    assert granted[1].checkpoint is None


async def test_a_later_attempt_finds_it_too(ledger: Ledger) -> None:
    job = uuid4()
    await claim(ledger, job)
    await save(ledger, SavedCheckpoint(job, 1, 1, "5"))
    checkpoint = (await claim(ledger, job, 2, "a2")).checkpoint
    assert checkpoint is not None
    assert (checkpoint.number, checkpoint.state_text) == (1, "5")


async def test_the_fence_refuses_who_does_not_hold_the_claim_any_more(ledger: Ledger) -> None:
    job = uuid4()
    await claim(ledger, job)
    await save(ledger, SavedCheckpoint(job, 1, 1, "5"))
    await claim(ledger, job, 2, "a2")
    assert not await save(ledger, SavedCheckpoint(job, 1, 2, "666")), "superseded"
    assert not await save(ledger, SavedCheckpoint(job, 2, 2, "666"), "a1"), "held by another"
    assert not await save(ledger, SavedCheckpoint(uuid4(), 1, 1, "666")), "never claimed"
    assert await save(ledger, SavedCheckpoint(job, 2, 2, "7"), "a2")
    checkpoint = (await claim(ledger, job, 3, "a3")).checkpoint
    assert checkpoint is not None
    assert checkpoint.state_text == "7"


async def test_nothing_is_saved_for_what_was_cancelled(ledger: Ledger) -> None:
    job = uuid4()
    await claim(ledger, job)
    await ledger.cancel([job], now=NOW)
    assert not await save(ledger, SavedCheckpoint(job, 1, 1, "5"))


async def test_what_has_completed_is_answered_as_such_whatever_was_saved(ledger: Ledger) -> None:
    job = uuid4()
    await claim(ledger, job)
    await save(ledger, SavedCheckpoint(job, 1, 1, "5"))
    done = Completion(job, 1, '"done"', (), NOW, NOW)
    assert await ledger.complete([done], agent_id="a1") == {job}
    assert (await claim(ledger, job, 2)).status is ClaimStatus.COMPLETED
