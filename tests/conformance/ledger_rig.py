"""What the suites of the ledger share: claims, completions, and a look into the database."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from infra.store.tests.raw_sql import run_sql

from warrener_agent.ledger.port import ChildJobRequest, Claim, ClaimStatus, Completion, Failure, Ledger

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=11)
LEASE = timedelta(minutes=10)
ENDED = timedelta(0)
"""The lease of a claim that another agent may have at once."""
WAIT = 60.0


def job(attempt: int = 1) -> Claim:
    return Claim(uuid4(), attempt)


async def claim(
    ledger: Ledger, *claims: Claim, by: str = "ada", lease: timedelta = LEASE
) -> list[ClaimStatus]:
    return [one.status for one in await ledger.claim(claims, agent_id=by, lease=lease)]


def done(claim: Claim, result: object = None, *child_jobs: ChildJobRequest) -> Completion:
    return Completion(claim.job_id, claim.attempt, json.dumps(result), child_jobs, NOW, LATER)


def failed(claim: Claim, detail: object = None) -> Failure:
    return Failure(claim.job_id, claim.attempt, detail, NOW, LATER)


async def recorded(ledger: Ledger, claim: Claim) -> Completion:
    (answer,) = await ledger.claim([claim], agent_id="reader", lease=LEASE)
    assert answer.status is ClaimStatus.COMPLETED, answer
    assert answer.completion is not None
    return answer.completion


async def make_table(ledger: Ledger) -> None:
    mine = job()
    await claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("CREATE TABLE effects (note TEXT)")
        assert await transaction.complete(done(mine))


async def effects(ledger: Ledger) -> list[str]:
    async with ledger.transaction(job(), agent_id="reader") as transaction:
        rows = await transaction.execute("SELECT note FROM effects ORDER BY note")
    return [str(row["note"]) for row in rows]


async def end_leases(url: str) -> None:
    if url.startswith("sqlite"):
        await run_sql(f"{url}-claims", "UPDATE warrener_claims SET lease_until = ''")
    else:
        await run_sql(url, "UPDATE warrener_ledger SET lease_until = now()")


async def end_of_lease(url: str) -> datetime:
    is_file = url.startswith("sqlite")
    where, table = (f"{url}-claims", "warrener_claims") if is_file else (url, "warrener_ledger")
    ((until,),) = await run_sql(where, f"SELECT lease_until FROM {table}")
    return datetime.fromisoformat(until) if is_file else until
