"""The agent of the order story. Each effect is a row of the table `effects`, written in the ledger's
transaction: whatever is killed, it is there once."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from warrener_agent import Agent, Fail, JobContext, Workflow

agent = Agent()

NEEDS_APPROVAL = 10_000  # cents
PATIENCE = timedelta(days=3)  # of an order that nobody approves

# No unique key: an effect that happens twice must be seen, not refused.
_TABLE = "CREATE TABLE IF NOT EXISTS effects (customer_order INTEGER NOT NULL, effect TEXT NOT NULL)"
_INSERT = "INSERT INTO effects VALUES (:order, :effect)"


class Receipt(BaseModel):
    """The result of a charge."""

    number: str
    cents: int


class Approval(BaseModel):
    """The data of the signal `approval`."""

    granted: bool
    by: str


class Fulfilled(BaseModel):
    """The result of the workflow."""

    receipt: str
    parcel: str
    approved_by: str | None = None


async def _write(job: JobContext, order: int, effect: str) -> None:
    transaction = await job.transaction()
    await transaction.execute(_TABLE)
    await transaction.execute(_INSERT, {"order": order, "effect": effect})


@agent.job("orders.reserve", guarantee="transactional")
async def reserve(job: JobContext, order: int) -> None:
    """Take the goods out of the stock."""
    await _write(job, order, "reserved")


@agent.job("orders.release", guarantee="transactional")
async def release(job: JobContext, order: int) -> None:
    """Put the goods back."""
    await _write(job, order, "released")


@agent.job("orders.charge", guarantee="transactional")
async def charge(job: JobContext, order: int, cents: int) -> Receipt:
    """Take the money."""
    await _write(job, order, "charged")
    return Receipt(number=f"R{order}", cents=cents)


@agent.job("orders.refund", guarantee="transactional")
async def refund(job: JobContext, order: int) -> None:
    """Give the money back."""
    await _write(job, order, "refunded")


@agent.job("orders.ship", guarantee="transactional")
async def ship(job: JobContext, order: int, item: str) -> str:
    """Give the goods to the carrier."""
    if item == "anvil":
        raise Fail("the carrier takes no anvils")  # no other attempt changes that
    await _write(job, order, "shipped")
    return f"P{order}"


@agent.workflow("orders.fulfil")
async def fulfil(flow: Workflow, order: int, item: str, cents: int) -> Fulfilled:
    """Reserve, charge, wait for an approval of a large sum, and ship."""
    await flow.undo(release, order=order).call(reserve, order=order)
    receipt = await flow.undo(refund, order=order).call(charge, order=order, cents=cents)
    approval = None
    if cents >= NEEDS_APPROVAL:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            approval = await flow.receive("approval", Approval)
        if not approval.granted:
            raise Fail(f"{approval.by} did not approve it")
    parcel = await flow.call(ship, order=order, item=item)
    return Fulfilled(receipt=receipt.number, parcel=parcel, approved_by=approval and approval.by)
