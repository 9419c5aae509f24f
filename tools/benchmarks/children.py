"""A child of a workflow beside a plain job: `python -m tools.benchmarks.children [JOBS] [ROUNDS]`.

In turns, on the same scheduler, supervisor and agent: so many jobs by themselves (4,000), as children of maps
of 200, and as children that workflows call one after another, 20 each. Printed are the rate and the processor
time of each, by part, with that of the turns of their workflows and without that of a system at rest; in
brackets the ratio to the plain job. A plain job and a child of a map share a message with others, a call in a
row is alone in its own: its ratio says what that costs too.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import asyncpg
from tools.benchmarks.one_round import processor_times
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.warrener_system import Warrener
from tools.benchmarks.turns import print_progress

from warrener_client import Client, JobSpec

_JOBS, _ROUNDS = 4_000, 3
_OF = {"plain": 1, "mapped": 200, "in_a_row": 20}
"""Jobs of one request."""
_DONE = "SELECT coalesce(sum(jobs), 0) FROM warrener_job_counts WHERE job_type = $1 AND state = 'succeeded'"
_LOOK, _STANDSTILL, _REST = 0.1, 120.0, 8.0


class Run:
    """One system, and the figures of each way."""

    def __init__(self, place: Place, servers: SharedServers, workers: Workers) -> None:
        self._place, self._workers = place, workers
        self._groups = workers.by_part | {"broker": servers.broker_pids, "database": servers.database_pids}
        self._idle: dict[str, float] = {}
        self._found: dict[str, list[dict[str, float]]] = {way: [] for way in _OF}

    async def go(self, jobs: int, rounds: int) -> None:
        """Take turns, after a first one that does not count."""
        async with Client(self._place.broker_url) as client:
            database = await asyncpg.connect(self._place.database_url)
            try:
                for way, each in _OF.items():
                    await self._one(client, database, way, max(jobs // 10, each))
                await self._rest()
                for _ in range(rounds):
                    for way in _OF:
                        figures = await self._one(client, database, way, jobs)
                        self._found[way].append(figures)
                        shown = ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
                        print_progress(f"{way}: {shown}")
            finally:
                await database.close()

    async def _rest(self) -> None:
        """See what the system spends in a second without jobs: a slow way must not pay for its pauses."""
        used = processor_times(self._groups)
        await asyncio.sleep(_REST)
        self._idle = {part: (now - used[part]) / _REST for part, now in processor_times(self._groups).items()}

    async def _one(
        self, client: Client, database: "asyncpg.Connection[asyncpg.Record]", way: str, jobs: int
    ) -> dict[str, float]:
        job_type = "noop" if way == "plain" else way
        wanted = [("noop", jobs // _OF[way] * _OF[way]), (job_type, jobs // _OF[way])]
        before = {name: int(await database.fetchval(_DONE, name)) for name, _ in wanted}
        used, began = processor_times(self._groups), time.perf_counter()
        async for _ in client.request_many(_specs(way, job_type, wanted[1][1]), want_results=False):
            pass
        last = began
        for name, count in wanted:
            done = -1
            while (now := int(await database.fetchval(_DONE, name)) - before[name]) < count:
                self._workers.check()
                if now > done:
                    done, last = now, time.perf_counter()
                elif time.perf_counter() - last > _STANDSTILL:
                    raise RuntimeError(f"expected {count} of {name}, got {now} and none more")
                await asyncio.sleep(_LOOK)
        seconds, count = time.perf_counter() - began, wanted[0][1]
        spent = {
            part: (after - used[part] - self._idle.get(part, 0.0) * seconds) / count * 1000
            for part, after in processor_times(self._groups).items()
        }
        return {"jobs a second": count / seconds, "cpu_ms": sum(spent.values()), **spent}

    def report(self) -> None:
        """Print the medians of each way, and their ratios to the plain job."""
        plain: dict[str, float] = {}
        for way, rounds in self._found.items():
            figures = {name: median(one[name] for one in rounds) for name in rounds[0]}
            plain = plain or figures
            shown = ", ".join(
                f"{name} {value:.2f} ({value / plain[name] if plain[name] else 0:.2f})"
                for name, value in figures.items()
            )
            print(f"{way}: {shown}")


def _specs(way: str, job_type: str, count: int) -> Iterator[JobSpec]:
    for number in range(count):
        yield JobSpec(job_type, {"number": number} if way == "plain" else {"children": _OF[way]})


async def _until_known(place: Place) -> None:
    """Request each job type once its agent has announced it."""
    database = await asyncpg.connect(place.database_url)
    try:
        known = "SELECT count(*) FROM warrener_job_types WHERE name = ANY($1)"
        while int(await database.fetchval(known, ["noop", "mapped", "in_a_row"])) < 3:  # noqa: ASYNC110 - the agent announces them
            await asyncio.sleep(_LOOK)
    finally:
        await database.close()
    await asyncio.sleep(2.0)  # schedulers read them again each second


def main() -> None:
    """Servers of its own, ended in any case."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    numbers = [int(word) for word in sys.argv[1:]]
    jobs, rounds = (*numbers, *(_JOBS, _ROUNDS)[len(numbers) :])
    with (
        TemporaryDirectory(prefix="warrener-children-") as folder,
        SharedServers.made() as servers,
        servers.place() as place,
        ExitStack() as stack,
    ):
        system = Warrener()
        system.prepare(place)
        commands = list(system.workers(place, 1))
        agent = commands[-1]
        commands[-1] = replace(agent, arguments=(*agent.arguments[:-1], "tools.benchmarks.apps.children"))
        workers = Workers.start(commands, place, Path(folder, "children.log"))
        stack.callback(workers.stop)
        run = Run(place, servers, workers)
        asyncio.run(asyncio.wait_for(_until_known(place), 60))
        asyncio.run(run.go(jobs, rounds))
        run.report()


if __name__ == "__main__":
    main()
