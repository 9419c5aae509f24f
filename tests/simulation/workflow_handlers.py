"""The workflows of the simulation, and the jobs that they call. Every job's effect is that of
`Workshop.work`: it counts once the job's completion is recorded."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.simulation.handlers import shop

from warrener_agent import Agent, Backoff, ChildJobFailed, JobContext, ResultPage, Transaction, Workflow
from warrener_contracts.policy import PolicyOverrides

jobs = Agent()
_SOON = Backoff.fixed(1, jitter=0)
_PATIENTLY = PolicyOverrides(
    max_attempts=8, backoff=Backoff.listed("1s", "20s"), retry_on=("ConnectionError",)
)
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


@jobs.job("list_numbers", start_timeout="60s")
async def list_numbers(job: JobContext, number: int) -> list[int]:
    return list(range(await shop().work(job, 0.2, number)))


@jobs.job("carry", start_timeout="60s", max_attempts=1)
async def carry(job: JobContext, order: int) -> int:
    if shop().fails_again(UUID(int=order), 1):
        raise RuntimeError("the road is closed")
    return await shop().work(job, 0.2, order)


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


def add_up(page: ResultPage[int | None]) -> int:
    """A step that reads a page."""
    return sum(number or 0 for number in page.items)


@agent.workflow("import_listed", start_timeout="60s")
async def import_listed(flow: Workflow, items: int, in_flight: int) -> list[int]:
    loaded = await flow.map(load, source=flow.call(list_numbers, number=items), in_flight=in_flight)
    return [loaded.succeeded, sum([await flow.step(add_up, page) async for page in flow.pages(loaded)])]


@agent.workflow("picky", start_timeout="60s")
async def ship_all(flow: Workflow, items: int, stop_after: int) -> list[Any]:
    shipped = await flow.map(
        ship, [{"order": n, "works": n not in {1, 6, 11}} for n in range(items)], stop_after=stop_after
    )
    return ["stopped" if shipped.stopped else "whole", shipped.failed]


@agent.workflow("slow", start_timeout="60s")
async def charge_all(flow: Workflow, items: int, seconds: float | None) -> str:
    try:
        async with asyncio.timeout(seconds):
            await flow.map(charge, [{"order": n, "seconds": 5.0} for n in range(items)])
    except TimeoutError:
        return "late"
    return "done"


@agent.workflow("careless_all", start_timeout="60s")
async def reserve_all(flow: Workflow) -> list[Any]:
    done = await flow.map("reserve", [{"order": n if n < 2 else "many"} for n in range(5)])
    return [done.succeeded, done.failed, [one.error.type for one in done.failures if one.error]]


async def book(transaction: Transaction, order: int) -> int:
    """A step that writes."""
    await transaction.execute(f"book {order}")
    return order


@agent.workflow("booked", start_timeout="60s")
async def book_twice(flow: Workflow, order: int) -> list[int]:
    first = await asyncio.gather(flow.step(book, order), flow.step(book, order + 1))
    return [*first, await flow.call(charge, order=order), await flow.step(book, order + 2)]


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


async def look(job_id: UUID, failures: int) -> int:
    """A step that fails some times."""
    if shop().fails_again(job_id, failures):
        raise ConnectionError("not yet")
    return failures


@agent.workflow("patient", start_timeout="60s", max_attempts=2, backoff=_SOON)
async def patient(flow: Workflow, order: int, failures: int) -> int:
    """A step with retries between a job and another."""
    await flow.call(reserve, order=order)
    await flow.options(policy=_PATIENTLY).step(look, flow.job_id, failures)
    return await flow.call(ship, order=order)


@agent.workflow("stubborn", start_timeout="60s", on_failure="hold")
async def stubborn(flow: Workflow, order: int) -> list[int]:
    """Held until an operator has the call requested again that fails once."""
    await flow.undo(release, order=order).call(reserve, order=order)
    async with asyncio.timeout(PATIENCE):
        carried = await asyncio.gather(flow.call(carry, order=order), flow.call(load, number=order))
    return [*carried, await flow.call(ship, order=order)]


@agent.workflow("relay", start_timeout="60s")
async def relay(flow: Workflow, order: int, to: UUID, left: int) -> int:
    """A job, a signal to another workflow and one from outside in each of its generations."""
    await flow.undo(release, order=order).call(reserve, order=order)
    flow.send(to, "number", order)
    flow.publish({"order": order})
    assert await flow.receive("go", int) == order
    return flow.continue_as(order=order + 1, to=to, left=left - 1) if left else order


@agent.workflow("careful", start_timeout="60s", max_attempts=2, backoff=_SOON, on_failure="hold")
async def careful(flow: Workflow, order: int, failures: int) -> int:
    """As `shaky`, but it is held where that dies."""
    await flow.undo(release, order=order).call(reserve, order=order)
    if shop().fails_again(flow.job_id, failures):
        raise RuntimeError("not yet")
    return await flow.call(ship, order=order)
