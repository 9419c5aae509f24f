"""The workflows of the chaos run, and the jobs that they call: beside the other handlers, in the same agents.
Each effect of an order is a row that names it, so that one which happens twice, or in vain, is found."""

import asyncio
import os
from pathlib import Path

from tools.chaos import handlers
from tools.chaos.effects import FOLDER
from tools.chaos.handlers import SURVIVES, recorded, work

from warrener_agent import Agent, Fail, JobContext, Workflow

agent = Agent()
agent.include(handlers.agent)
_FOLDER = Path(os.environ.get(FOLDER, "."))


async def _write(job: JobContext, effect: str, seconds: float = 0.0) -> str:
    async with recorded(job) as run:
        transaction = await job.transaction()
        await transaction.execute(
            "INSERT INTO chaos_effects (job_id, attempt, run, note) VALUES (:job, :attempt, :run, :note)",
            {"job": str(job.job_id), "attempt": job.attempt, "run": run.name, "note": effect},
        )
        await work(run, seconds)
        return run.name


@agent.job("chaos.reserve", queue="beta", guarantee="transactional", **SURVIVES)
async def reserve(job: JobContext, order: str) -> str:
    return await _write(job, f"reserve {order}")


@agent.job("chaos.release", queue="beta", guarantee="transactional", **SURVIVES)
async def release(job: JobContext, order: str) -> str:
    return await _write(job, f"release {order}")


@agent.job("chaos.charge", queue="beta", guarantee="transactional", **SURVIVES)
async def charge(job: JobContext, order: str, *, seconds: float = 0.0) -> str:
    return await _write(job, f"charge {order}", seconds)


@agent.job("chaos.refund", queue="beta", guarantee="transactional", **SURVIVES)
async def refund(job: JobContext, order: str) -> str:
    return await _write(job, f"refund {order}", 0.1)


@agent.job("chaos.ship", queue="beta", guarantee="transactional", **SURVIVES)
async def ship(job: JobContext, order: str, *, works: bool = True) -> str:
    if not works:
        raise Fail("the carrier takes none")
    return await _write(job, f"ship {order}")


@agent.job("chaos.load", queue="alpha", **SURVIVES)
async def load(job: JobContext, number: int) -> str:
    async with recorded(job) as run:
        await work(run, number % 3 * 0.05)
        return run.name


async def stand_still(order: str, seconds: float) -> None:
    """Take time within a turn; a file says in which process, for the fault that kills it there."""
    mark = _FOLDER / f"turn-{os.getpid()}-{order}"
    mark.touch()
    try:
        await asyncio.sleep(seconds)
    finally:
        mark.unlink(missing_ok=True)


@agent.workflow("chaos.order", queue="alpha", **SURVIVES)
async def order(flow: Workflow, *, seconds: float = 0.0, signals: int = 0, ships: bool = True) -> list[int]:
    """An order that is reserved, charged, approved by so many signals, and shipped; else undone."""
    number = str(flow.job_id)
    await flow.undo(release, order=number).call(reserve, order=number)
    if seconds:
        await flow.step(stand_still, number, seconds)
    await flow.undo(refund, order=number).call(charge, order=number, seconds=seconds)
    received = [await flow.receive("approved", int) for _ in range(signals)]
    await flow.call(ship, order=number, works=ships)
    return sorted(received)


@agent.workflow("chaos.import", queue="alpha", **SURVIVES)
async def import_all(flow: Workflow, *, items: int, in_flight: int) -> int:
    loaded = await flow.map(load, range(items), in_flight=in_flight)
    return loaded.succeeded
