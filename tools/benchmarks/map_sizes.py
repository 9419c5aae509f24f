"""What maps of many sizes cost: `python -m tools.benchmarks.map_sizes [JOBS ...] [--at-once N] [--sqlite]`.

A workflow maps over so many numbers on a scheduler, a supervisor and an agent; `--at-once`: so many such
workflows. Printed are its time, the time from the end of its last job to its own, its turns, the memory of
each part at its highest, and the processor time a job.
"""

import asyncio
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from tools.benchmarks.one_round import processor_times
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers, memory_megabytes
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.warrener_system import Warrener

from warrener_client import Client, RequestRejected
from warrener_store.jobs.rows import JobFilter
from warrener_store.opening import open_store

SIZES = (1_000, 10_000, 100_000)
_WITHIN, _LOOK, _TRIES = 3_600.0, 0.5, 30


def measure(servers: SharedServers, place: Place, jobs: int, at_once: int, in_flight: int) -> None:
    """Run the maps on fresh services and print their figures."""
    system = Warrener(environment=_ledger_of(place))
    system.prepare(place)
    *services, agent = system.workers(place, 1)
    agent = replace(agent, arguments=(*agent.arguments[:-1], "tools.benchmarks.apps.map_sizes"))
    with ExitStack() as stack:
        workers = Workers.start([*services, agent], place, Path(place.folder, "map_sizes.log"))
        stack.callback(workers.stop)
        groups = workers.by_part | {"broker": servers.broker_pids, "database": servers.database_pids}
        highest = dict.fromkeys(workers.by_part, 0.0)

        def look() -> None:
            workers.check()
            for part, pids in workers.by_part.items():
                highest[part] = max(highest[part], sum(memory_megabytes(pids)))

        asyncio.run(_run(place, 10, 1, in_flight, look))
        before, highest = processor_times(groups), dict.fromkeys(workers.by_part, 0.0)
        began = time.monotonic()
        ids = asyncio.run(_run(place, jobs, at_once, in_flight, look))
        seconds, used = time.monotonic() - began, processor_times(groups)
        joins, turns = asyncio.run(_joins(place.database_url, ids))
        of = f"{at_once} maps of {jobs}" if at_once > 1 else f"map of {jobs}"
        memory = ", ".join(f"{part} {size:.0f}" for part, size in highest.items())
        cost = {part: (used[part] - before[part]) * 1000 / jobs / at_once for part in used}
        print(
            f"{of}: {seconds:.1f} s, {jobs * at_once / seconds:.0f} jobs a second; joined "
            f"{max(joins).total_seconds():.2f} s after the last job; {turns} turns; MB: {memory}; "
            f"{sum(cost.values()):.2f} ms of processor time a job: "
            f"{', '.join(f'{part} {spent:.2f}' for part, spent in cost.items())}",
            flush=True,
        )


def _ledger_of(place: Place) -> dict[str, str]:
    is_file = place.database_url.startswith("sqlite")
    return {"WARRENER_LEDGER_URL": f"sqlite:///{place.folder}/ledger.db" if is_file else place.database_url}


async def _run(
    place: Place, jobs: int, at_once: int, in_flight: int, look: Callable[[], None]
) -> Sequence[UUID]:
    """Run the workflows to their ends, with a look now and then; the first may come before its type is
    known."""
    async with Client(place.broker_url) as client:
        for _ in range(_TRIES):
            arguments = {"jobs": jobs, "in_flight": in_flight}
            requested = [await client.request("mapped", arguments) for _ in range(at_once)]
            ends = asyncio.gather(*(job.result(timeout=_WITHIN) for job in requested), return_exceptions=True)
            while not ends.done():
                await asyncio.wait({ends}, timeout=_LOOK)
                look()
            found = ends.result()
            if not any(isinstance(end, RequestRejected) for end in found):
                if found != [jobs] * at_once:
                    raise RuntimeError(f"expected maps of {jobs} jobs, got {found}")
                return [job.job_id for job in requested]
            await asyncio.sleep(1.0)
    raise RuntimeError(f"expected the workflow to be known within {_TRIES} s")


async def _joins(url: str, ids: Sequence[UUID]) -> tuple[list[timedelta], int]:
    """The time from the last end of a job to that of its workflow, of each, and the turns of the first."""
    store = open_store(url)
    await store.start()
    try:
        found = list[timedelta]()
        for job_id, row in (await store.jobs_by_id(ids)).items():
            latest = await store.list_jobs(JobFilter(parent_id=job_id, limit=1_000))
            ends = [one.finished_at for one in latest if one.finished_at is not None]
            assert row.finished_at is not None
            found.append(row.finished_at - max(ends))
        return found, len((await store.turns_of(ids[:1]))[ids[0]])
    finally:
        await store.close()


def main() -> None:
    """Servers of its own, ended in any case."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", type=int, default=SIZES)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=500)
    parser.add_argument("--sqlite", action="store_true")
    given = parser.parse_args()
    with SharedServers.made() as servers:
        for jobs in given.jobs:
            with servers.place() as shared, TemporaryDirectory(prefix="warrener-map-") as folder:
                place = replace(shared, folder=folder)
                if given.sqlite:
                    place = replace(place, database_url=f"sqlite:///{folder}/state.db")
                measure(servers, place, jobs, given.at_once, given.in_flight)


if __name__ == "__main__":
    main()
