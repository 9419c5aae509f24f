"""The import as a workflow of DBOS: `python -m tools.benchmarks.peers.dbos_flows work` or `drive`."""

import sys
import threading

from dbos import DBOS, DBOSClient, DBOSConfig
from tools.benchmarks.peers.driving import drive, note
from tools.benchmarks.place import here

QUEUE = "bench"
POLLING = 0.05  # seconds; its default of 1 would measure itself
VERSION = "bench"


@DBOS.workflow(name="peers.load")
def load(number: int) -> int:
    """Nothing."""
    return 1


@DBOS.workflow(name="peers.watched")
def watched(number: int) -> int:
    """Say that it ran."""
    note("child")
    return 1


@DBOS.workflow(name="peers.total")
def total(numbers: list[int]) -> int:
    """The workflow behind the join."""
    note("join")
    return sum(numbers)


@DBOS.step(name="peers.compute")
def compute(number: int) -> int:
    """A step."""
    return number + 1


@DBOS.workflow(name="peers.import")
def import_files(count: int) -> int:
    """Fan out, join, and call one more workflow."""
    children = [DBOS.enqueue_workflow(QUEUE, load, number) for number in range(count)]
    numbers = [child.get_result(polling_interval_sec=POLLING) for child in children]
    return DBOS.enqueue_workflow(QUEUE, total, numbers).get_result(polling_interval_sec=POLLING)


@DBOS.workflow(name="peers.import_watched")
def import_watched(count: int) -> int:
    """The same with children that say that they ran."""
    children = [DBOS.enqueue_workflow(QUEUE, watched, number) for number in range(count)]
    numbers = [child.get_result(polling_interval_sec=POLLING) for child in children]
    return DBOS.enqueue_workflow(QUEUE, total, numbers).get_result(polling_interval_sec=POLLING)


@DBOS.workflow(name="peers.calls")
def call_in_a_row(count: int) -> int:
    """Call one workflow after another, through the queue."""
    return sum(
        DBOS.enqueue_workflow(QUEUE, load, number).get_result(polling_interval_sec=POLLING)
        for number in range(count)
    )


@DBOS.workflow(name="peers.steps")
def step_in_a_row(count: int) -> int:
    """Take one step after another, in the same process."""
    done = 0
    for _ in range(count):
        done = compute(done)
    return done


def work() -> None:
    """Be an executor."""
    config = DBOSConfig(
        name="bench",
        system_database_url=here().database_url,
        application_version=VERSION,
        log_level="WARNING",
    )
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLLING)
    threading.Event().wait()


def request() -> None:
    """Request what the harness says."""
    client = DBOSClient(system_database_url=here().database_url)

    def run(name: str, count: int) -> object:
        options = {"queue_name": QUEUE, "workflow_name": name, "app_version": VERSION}
        return client.enqueue(options, count).get_result(polling_interval_sec=0.005)  # type: ignore[arg-type]

    drive(
        {
            "import": lambda count: run("peers.import", count),
            "watched": lambda count: run("peers.import_watched", count),
            "calls": lambda count: run("peers.calls", count),
            "steps": lambda count: run("peers.steps", count),
        }
    )


if __name__ == "__main__":
    {"work": work, "drive": request}[sys.argv[1]]()
