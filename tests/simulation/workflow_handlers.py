"""The workflows of the simulation, and the jobs that they call. Every job's effect is that of
`Workshop.work`: it counts once the job's completion is recorded."""

import asyncio
from datetime import timedelta

from tests.simulation.handlers import shop

from warrener_agent import Agent, Backoff, ChildJobFailed, JobContext, Workflow

jobs = Agent()
_SOON = Backoff.fixed(1, jitter=0)
PATIENCE = 300.0  # seconds in which an order must be approved


@jobs.job("reserve", start_timeout="60s")
async def reserve(job: JobContext, order: int) -> int:
    return await shop().work(job, 0.2, order)


@jobs.job("release", start_timeout="60s")
async def release(job: JobContext, order: int) -> int:
    return await shop().work(job, 0.5, order)


@jobs.job("charge", start_timeout="60s", timeout="6s", max_attempts=2, backoff=_SOON)
async def charge(job: JobContext, order: int, seconds: float = 0.2) -> int:
    return await shop().work(job, seconds, order)


@jobs.job("refund", start_timeout="60s")
async def refund(job: JobContext, order: int) -> int:
    return await shop().work(job, 3.0, order)


@jobs.job("ship", start_timeout="60s", max_attempts=2, backoff=_SOON)
async def ship(job: JobContext, order: int, *, works: bool = True) -> int:
    if not works:
        raise RuntimeError("the carrier takes none")
    return await shop().work(job, 0.2, order)


@jobs.job("load", start_timeout="60s")
async def load(job: JobContext, number: int) -> int:
    return await shop().work(job, 0.3, number)


agent, next_release = Agent(), Agent()
"""The second one has another order in place of the first one's."""
for _release in (agent, next_release):
    _release.include(jobs)


def weigh(order: int) -> int:
    """A step."""
    return order * 10


@agent.workflow("fulfil", start_timeout="60s", max_attempts=5, backoff=_SOON)
async def fulfil(
    flow: Workflow, order: int, *, ships: bool = True, approved: bool = True, charge_seconds: float = 0.2
) -> int:
    """The order: `ships` is False if the carrier refuses it, `approved` if somebody has to approve it."""
    await flow.undo(release, order=order).call(reserve, order=order)
    await flow.undo(refund, order=order).call(charge, order=order, seconds=charge_seconds)
    assert await flow.step(weigh, order) == order * 10
    if not approved:
        async with asyncio.timeout(PATIENCE):
            assert await flow.receive("approved", int) == order
    return await flow.call(ship, order=order, works=ships)


@next_release.workflow("fulfil", start_timeout="60s", max_attempts=5, backoff=_SOON)
async def fulfil_without_undo(
    flow: Workflow, order: int, *, ships: bool = True, approved: bool = True, charge_seconds: float = 0.2
) -> int:
    await flow.call(charge, order=order, seconds=charge_seconds)
    return await flow.call(ship, order=order, works=ships and approved)


@agent.workflow("import", start_timeout="60s")
async def import_all(flow: Workflow, items: int, in_flight: int) -> int:
    loaded = await flow.map(load, range(items), in_flight=in_flight)
    assert list(loaded.results) == list(range(items))
    return loaded.succeeded


@agent.workflow("bundle", start_timeout="60s")
async def bundle(flow: Workflow, order: int, *, ships: bool) -> int:
    """Two orders in one: the first is undone if the second fails."""
    await flow.undo(refund, order=order).call(charge, order=order)
    return await flow.call(fulfil, order=order + 1, ships=ships)


@agent.workflow("shaky", start_timeout="60s", max_attempts=4, backoff=_SOON)
async def shaky(flow: Workflow, order: int, failures: int) -> int:
    await flow.call(reserve, order=order)
    if shop().fails_again(flow.job_id, failures):
        raise RuntimeError("not yet")
    return await flow.call(ship, order=order)


@agent.workflow("careless", start_timeout="60s")
async def careless(flow: Workflow) -> list[str]:
    try:
        await flow.call("reserve", {"order": "many"})
    except ChildJobFailed as failed:
        return [str(failed.state), failed.error.type if failed.error is not None else ""]
    return []


@agent.workflow("counter", start_timeout="60s")
async def count_signals(flow: Workflow, signals: int) -> list[int]:
    received: list[int] = []
    for _ in range(signals):
        received.append(await flow.receive("number", int))
        await flow.sleep(timedelta(seconds=1))
    return received


@agent.workflow("careful", start_timeout="60s", max_attempts=2, backoff=_SOON, on_failure="hold")
async def careful(flow: Workflow, order: int, failures: int) -> int:
    """As `shaky`, but it is held where that dies."""
    await flow.undo(release, order=order).call(reserve, order=order)
    if shop().fails_again(flow.job_id, failures):
        raise RuntimeError("not yet")
    return await flow.call(ship, order=order)
