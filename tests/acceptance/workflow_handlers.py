"""An order that is charged in three parts. In an agent with WAITS, its second turn blocks until it is killed;
charges wait until the file `join` is there. Each effect is a row of the table `effects`."""

import asyncio
import os
import threading
from pathlib import Path

from warrener_agent import Agent, Fail, JobContext, Workflow

agent = Agent()
PARTS = 3


async def write(job: JobContext, effect: str) -> None:
    transaction = await job.transaction()
    await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": effect})


def began(name: str) -> None:
    Path(name).touch()


def is_open() -> bool:
    return Path("join").exists()


@agent.job("reserve", guarantee="transactional")
async def reserve(job: JobContext, order: int) -> None:
    await write(job, f"{order} reserved")


@agent.job("release", guarantee="transactional")
async def release(job: JobContext, order: int) -> None:
    await write(job, f"{order} released")


@agent.job("charge", guarantee="transactional")
async def charge(job: JobContext, order: int, part: int) -> int:
    began(f"charging-{order}-{part}")
    while not is_open():  # noqa: ASYNC110 - another process opens it, for several at once
        await asyncio.sleep(0.05)
    await write(job, f"{order} charged {part}")
    return part


@agent.job("refund", guarantee="transactional")
async def refund(job: JobContext, order: int, part: int) -> None:
    await write(job, f"{order} refunded {part}")


@agent.job("ship", guarantee="transactional")
async def ship(job: JobContext, order: int) -> str:
    if order % 2:
        raise Fail("the carrier takes no odd orders")
    await write(job, f"{order} shipped")
    return f"P{order}"


@agent.workflow("charge_all")
async def charge_all(flow: Workflow, orders: int) -> list[int]:
    """Charge so many orders; they have two batches."""
    charged = await flow.map(charge, ({"order": n, "part": 0} for n in range(orders)), in_flight=orders)
    return [charged.succeeded, charged.failed]


def block(order: int) -> None:
    """Stand still in a turn, in the agent that is to be killed."""
    if "WAITS" in os.environ:
        began(f"turn-{order}")
        threading.Event().wait()


@agent.workflow("fulfil")
async def fulfil(flow: Workflow, order: int) -> str:
    await flow.undo(release, order=order).call(reserve, order=order)
    block(order)
    await flow.receive("approved")
    await asyncio.gather(
        *(
            flow.undo(refund, order=order, part=part).call(charge, order=order, part=part)
            for part in range(PARTS)
        )
    )
    return await flow.call(ship, order=order)


@agent.job("deliver", guarantee="transactional")
async def deliver(job: JobContext, order: int) -> str:
    if not is_open():
        raise Fail("the road is closed")
    await write(job, f"{order} delivered")
    return f"D{order}"


@agent.workflow("deliver_patiently", on_failure="hold")
async def deliver_patiently(flow: Workflow, order: int) -> str:
    await flow.undo(release, order=order).call(reserve, order=order)
    return await flow.call(deliver, order=order)
