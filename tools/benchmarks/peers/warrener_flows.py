"""The import as a workflow of ours: agents load it; `python -m …peers.warrener_flows drive` requests."""

import sys

from tools.benchmarks.peers.driving import PATIENCE, drive, note
from tools.benchmarks.place import here

from warrener_agent import Agent, Workflow
from warrener_client import SyncClient

agent = Agent()
IN_FLIGHT = 500


@agent.job("peers.load", dispatch_batch=16)
async def load(number: int) -> int:
    """Nothing."""
    return 1


@agent.job("peers.watched")
async def watched(number: int) -> int:
    """Say that it ran."""
    note("child")
    return 1


@agent.job("peers.total")
async def total(numbers: list[int]) -> int:
    """The job behind the join."""
    note("join")
    return sum(numbers)


def compute(number: int) -> int:
    """A step."""
    return number + 1


@agent.workflow("peers.import")
async def import_files(flow: Workflow, count: int) -> int:
    """Fan out, join, and call one more job."""
    loads = await flow.map(load, range(count), in_flight=IN_FLIGHT)
    return await flow.call(total, numbers=[one or 0 for one in loads.results])


@agent.workflow("peers.import_watched")
async def import_watched(flow: Workflow, count: int) -> int:
    """The same with children that say that they ran."""
    loads = await flow.map(watched, range(count), in_flight=IN_FLIGHT)
    return await flow.call(total, numbers=[one or 0 for one in loads.results])


@agent.workflow("peers.calls")
async def call_in_a_row(flow: Workflow, count: int) -> int:
    """Call one job after another."""
    done = 0
    for number in range(count):
        done += await flow.call(load, number=number)
    return done


@agent.workflow("peers.steps")
async def step_in_a_row(flow: Workflow, count: int) -> int:
    """Take one step after another, in the agent's process."""
    done = 0
    for _ in range(count):
        done = await flow.step(compute, done)
    return done


def main() -> None:
    """Request what the harness says."""
    with SyncClient(here().broker_url) as client:

        def run(job_type: str, count: int) -> int:
            return client.request(job_type, {"count": count}).result(as_=int, timeout=PATIENCE)

        drive(
            {
                "import": lambda count: run("peers.import", count),
                "watched": lambda count: run("peers.import_watched", count),
                "calls": lambda count: run("peers.calls", count),
                "steps": lambda count: run("peers.steps", count),
            }
        )


if __name__ == "__main__" and sys.argv[1:] == ["drive"]:
    main()
