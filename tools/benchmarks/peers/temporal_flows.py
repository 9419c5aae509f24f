"""The import as a workflow of Temporal: `python -m tools.benchmarks.peers.temporal_flows work` or `drive`."""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from tools.benchmarks.peers.driving import PATIENCE, drive, note

QUEUE = "bench"
TIMEOUT = timedelta(seconds=10)  # of one attempt of an activity


@activity.defn(name="peers.load")
async def load(number: int) -> int:
    """Nothing."""
    return 1


@activity.defn(name="peers.watched")
async def watched(number: int) -> int:
    """Say that it ran."""
    note("child")
    return 1


@activity.defn(name="peers.total")
async def total(numbers: list[int]) -> int:
    """The activity behind the join."""
    note("join")
    return sum(numbers)


@activity.defn(name="peers.compute")
async def compute(number: int) -> int:
    """A step."""
    return number + 1


@workflow.defn(name="import")
class Import:
    """Fan out, join, and call one more activity."""

    @workflow.run
    async def run(self, count: int) -> int:
        """Return the number of children."""
        loads = (workflow.execute_activity(load, n, start_to_close_timeout=TIMEOUT) for n in range(count))
        numbers = list(await asyncio.gather(*loads))
        return await workflow.execute_activity(total, numbers, start_to_close_timeout=TIMEOUT)


@workflow.defn(name="watched")
class Watched:
    """The same with children that say that they ran."""

    @workflow.run
    async def run(self, count: int) -> int:
        """Return the number of children."""
        loads = (workflow.execute_activity(watched, n, start_to_close_timeout=TIMEOUT) for n in range(count))
        numbers = list(await asyncio.gather(*loads))
        return await workflow.execute_activity(total, numbers, start_to_close_timeout=TIMEOUT)


@workflow.defn(name="calls")
class Calls:
    """One activity after another."""

    @workflow.run
    async def run(self, count: int) -> int:
        """Return the number of calls."""
        done = 0
        for number in range(count):
            done += await workflow.execute_activity(load, number, start_to_close_timeout=TIMEOUT)
        return done


@workflow.defn(name="steps")
class Steps:
    """One local activity after another, in the worker of the workflow."""

    @workflow.run
    async def run(self, count: int) -> int:
        """Return the number of steps."""
        done = 0
        for _ in range(count):
            done = await workflow.execute_local_activity(compute, done, start_to_close_timeout=TIMEOUT)
        return done


async def work() -> None:
    """Be a worker."""
    client = await Client.connect(os.environ["BENCH_TEMPORAL"])
    with ThreadPoolExecutor(4) as threads:
        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[Import, Watched, Calls, Steps],
            activities=[load, watched, total, compute],
            workflow_task_executor=threads,
            max_concurrent_activities=1000,
        )
        await worker.run()


def request() -> None:
    """Request what the harness says."""
    with asyncio.Runner() as runner:
        client = runner.run(Client.connect(os.environ["BENCH_TEMPORAL"]))

        def run(name: str, count: int) -> object:
            async def one() -> object:
                return await asyncio.wait_for(
                    client.execute_workflow(name, count, id=f"{name}-{uuid4()}", task_queue=QUEUE), PATIENCE
                )

            return runner.run(one())

        drive(
            {
                name: lambda count, name=name: run(name, count)  # type: ignore[misc]
                for name in ("import", "watched", "calls", "steps")
            }
        )


if __name__ == "__main__":
    if sys.argv[1] == "work":
        asyncio.run(work())
    else:
        request()
