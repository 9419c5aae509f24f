"""What a step of a long workflow costs: `python -m tools.benchmarks.long_workflow [STEPS] [--sqlite]`.

A workflow awaits a trivial child job so many times, one after another, on a scheduler, a supervisor and an
agent; `--sqlite`: with state and ledger in SQLite, as `warrener up` has them. Printed are the milliseconds a
step around the 10th, 100th, 500th and 1,000th, the processor time of each part, and the ratios to the 10th.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import UUID

from tools.benchmarks.one_round import processor_times
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.warrener_system import Warrener
from tools.benchmarks.turns import print_progress

from warrener_client import Client, RequestRejected
from warrener_store.opening import open_store

STEPS = 1_000
_NUMBERS = (10, 100, 500, 1_000, 1_500, 1_900)
_AROUND = 10  # steps before and after, of which the median is taken; of processor time, twice as many
_WARM_UP = 20  # steps of a workflow that runs before
_WITHIN = 600.0
_LOOK, _TRIES = 0.05, 30


def measure(servers: SharedServers, place: Place, steps: int, system: Warrener) -> None:
    """Run one workflow and print its figures."""
    starts, log = Path(place.folder, "starts.txt"), Path(place.folder, "long_workflow.log")
    commands = [
        replace(command, environment={**command.environment, "LONG_WORKFLOW_STARTS": str(starts)})
        for command in system.workers(place, 1)
    ]
    commands[-1] = replace(
        commands[-1], arguments=(*commands[-1].arguments[:-1], "tools.benchmarks.apps.long_workflow")
    )
    with ExitStack() as stack:
        workers = Workers.start(commands, place, log)
        stack.callback(workers.stop)
        groups = workers.by_part | {"broker": servers.broker_pids, "database": servers.database_pids}
        used = list[dict[str, float]]()

        def look() -> None:
            workers.check()
            done = starts.read_bytes().count(b"\n") if starts.exists() else 0
            used.append({"steps": float(done), **processor_times(groups)})

        asyncio.run(_run(place, _WARM_UP, look))
        starts.write_bytes(b"")
        used.clear()
        job_id = asyncio.run(_run(place, steps, look))
        look()
        times = [int(line.split()[1]) / 1e6 for line in starts.read_text().splitlines()]
        print_progress(f"{steps} steps in {(times[-1] - times[0]) / 1e3:.0f} s")
        _report(times, used, asyncio.run(_journal_size(place.database_url, job_id)))


def _report(times: list[float], used: Sequence[Mapping[str, float]], size: int) -> None:
    first: tuple[float, float] | None = None
    for number in [number for number in _NUMBERS if number <= len(times)]:
        begin, end = number - _AROUND, min(number + _AROUND, len(times))
        spans = [after - before for before, after in pairwise(times[begin:end])]
        before, after = (
            min(used, key=lambda one: abs(one["steps"] - at)) for at in (begin - _AROUND, end + _AROUND)
        )
        count = after["steps"] - before["steps"]
        parts = {part: (after[part] - before[part]) / count * 1000 for part in after if part != "steps"}
        found = median(spans), sum(parts.values())
        first = first or found
        shown = ", ".join(f"{part} {spent:.1f}" for part, spent in parts.items())
        print(
            f"step {number:5}: {found[0]:6.1f} ms ({found[0] / first[0]:4.2f} times the 10th), "
            f"{found[1]:5.1f} ms of processor time ({found[1] / first[1]:4.2f} times): {shown}"
        )
    print(f"journal: {size} bytes")


async def _run(place: Place, steps: int, look: Callable[[], None]) -> UUID:
    """Run a workflow to its end, with a look now and then; the first ones may come before its job type is
    known."""
    async with Client(place.broker_url) as client:
        for _ in range(_TRIES):
            job = await client.request("long", {"steps": steps})
            end = asyncio.ensure_future(job.result(timeout=_WITHIN))
            while not (await asyncio.wait({end}, timeout=_LOOK))[0]:
                look()
            if not isinstance(end.exception(), RequestRejected):
                end.result()
                return job.job_id
            await asyncio.sleep(1.0)
    raise RuntimeError(f"expected the workflow to be known within {_TRIES} s")


async def _journal_size(url: str, job_id: UUID) -> int:
    store = open_store(url)
    await store.start()
    try:
        return (await store.journal_sizes([job_id]))[job_id]
    finally:
        await store.close()


def main() -> None:
    """Servers of its own, ended in any case."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    steps = next((int(word) for word in sys.argv[1:] if word.isdecimal()), STEPS)
    with (
        TemporaryDirectory(prefix="warrener-long-") as folder,
        SharedServers.made() as servers,
        servers.place() as shared,
    ):
        place, ledger = replace(shared, folder=folder), shared.database_url
        if "--sqlite" in sys.argv[1:]:
            place = replace(place, database_url=f"sqlite:///{folder}/state.db")
            ledger = f"sqlite:///{folder}/ledger.db"
        system = Warrener(environment={"WARRENER_LEDGER_URL": ledger})
        system.prepare(place)
        measure(servers, place, steps, system)


if __name__ == "__main__":
    main()
