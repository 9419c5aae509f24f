"""A backlog that waits for longer than `start_timeout`: `python -m tools.benchmarks.waiting [JOBS]`.

All jobs are accepted and dispatched while no agent serves their queue, and wait there until their
`start_timeout` has passed for every one of them; then one agent takes them. Expected of a scheduler and a
supervisor that take waiting for what it is: no more dispatch messages than jobs, each job started once, under
attempt 1, and memory that does not grow with the backlog. Exits with 1 where one of these does not hold.
"""

import asyncio
import signal
import sys
import tempfile
import time
from collections import Counter as Starts
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import asyncpg
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers, memory_megabytes
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.port import Command
from tools.benchmarks.systems.warrener_system import Warrener
from tools.benchmarks.turns import print_progress

from warrener_client import Client, JobSpec

JOBS = 1_000_000
START_TIMEOUT = 30.0  # seconds
FLAT = 1.2  # a service may grow by this factor between a tenth of the backlog and all of it
WARM_UP = 20_000
"""Jobs that are done first: a service that has done no work yet is smaller than one at work."""
STANDSTILL = 120.0
_LOOK = 2.0

QUEUED = "SELECT coalesce(sum(jobs), 0) FROM warrener_job_counts WHERE state = 'queued'"
SUCCEEDED = "SELECT coalesce(sum(jobs), 0) FROM warrener_job_counts WHERE state = 'succeeded'"
ATTEMPTS = "SELECT count(*), coalesce(max(attempt), 0) FROM warrener_jobs WHERE job_type = 'counted'"


class Run:
    """One backlog, and what was seen of it."""

    def __init__(self, jobs: int, servers: SharedServers, place: Place, starts: Path) -> None:
        self._jobs, self._servers, self._place, self._starts = jobs, servers, place, starts
        self._log = starts.with_suffix(".log")
        settings = {"WAITING_STARTS": str(starts), "WAITING_START_TIMEOUT": f"{START_TIMEOUT:g}s"}
        self._commands = {
            command.part: replace(command, environment={**command.environment, **settings})
            for command in Warrener(slots=500).workers(place, 1)
        }
        agent = self._commands["agents"]
        module = "tools.benchmarks.apps.waiting_jobs"
        self._commands["agents"] = replace(agent, arguments=(*agent.arguments[:-1], module))
        self._memory: dict[str, list[float]] = {}
        self._failed: list[str] = []

    def go(self) -> bool:
        """True if everything held that was expected."""
        with ExitStack() as stack:
            agent = self._start("agents")
            services = self._start("scheduler", "supervisor")
            stack.callback(services.stop)
            first = self._introduce(services)
            agent.stop()
            self._publish_jobs(self._jobs)
            self._until(QUEUED, self._jobs // 10, services)
            self._measure("a tenth waits", services)
            self._until(QUEUED, self._jobs, services)
            self._measure("all wait", services)
            print_progress(f"all are dispatched; waiting {2 * START_TIMEOUT:.0f} s, beyond start_timeout")
            self._watch(2 * START_TIMEOUT, services)
            self._measure("all have waited too long", services)
            waiting = self._servers.in_broker(self._place)
            self._expect(waiting <= self._jobs, f"{waiting:,} messages wait for {self._jobs:,} jobs")
            agents = self._start("agents")
            stack.callback(agents.stop)
            self._until(SUCCEEDED, self._jobs + first, services)
            self._measure("all are done", services)
        self._check_starts()
        self._check_memory()
        return not self._failed

    def _start(self, *parts: str) -> Workers:
        commands: list[Command] = [self._commands[part] for part in parts]
        return Workers.start(commands, self._place, self._log)

    def _introduce(self, services: Workers) -> int:
        """Jobs that are done before the run begins: the first is repeated until its type is known."""
        while not self._count(SUCCEEDED):
            self._publish_jobs(1, first=self._jobs)
            time.sleep(_LOOK)
        self._publish_jobs(WARM_UP, first=self._jobs + 1)
        self._until(SUCCEEDED, WARM_UP + 1, services)
        return self._count(SUCCEEDED)

    def _publish_jobs(self, count: int, *, first: int = 0) -> None:
        async def publish() -> None:
            async with Client(self._place.broker_url) as client:
                specs = (JobSpec("counted", {"number": first + number}) for number in range(count))
                async for _ in client.request_many(specs, want_results=False):
                    pass

        began = time.perf_counter()
        asyncio.run(publish())
        print_progress(f"{count:,} requested in {time.perf_counter() - began:.0f} s")

    def _until(self, statement: str, jobs: int, services: Workers) -> None:
        last, last_at, reported_at = -1, time.perf_counter(), 0.0
        while (found := self._count(statement)) < jobs:
            services.check()
            now = time.perf_counter()
            if found > last:
                last, last_at = found, now
            elif now - last_at > STANDSTILL:
                raise RuntimeError(f"expected {jobs:,} jobs, got {found:,} and none more for {STANDSTILL} s")
            if now - reported_at > 15:
                print_progress(f"  {found:,} of {jobs:,}")
                reported_at = now
            time.sleep(_LOOK)

    def _watch(self, seconds: float, services: Workers) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            services.check()
            time.sleep(_LOOK)

    def _measure(self, when: str, services: Workers) -> None:
        found = {part: memory_megabytes(pids)[0] for part, pids in services.by_part.items()}
        for part, megabytes in found.items():
            self._memory.setdefault(part, []).append(megabytes)
        print_progress(
            f"{when}: " + ", ".join(f"{part} {megabytes:.0f} MB" for part, megabytes in found.items())
        )

    def _check_starts(self) -> None:
        numbers = map(int, self._starts.read_bytes().split())
        starts = Starts(number for number in numbers if number < self._jobs)  # others: warm-up
        started, most = len(starts), max(starts.values())
        twice = sum(many > 1 for many in starts.values())
        self._expect(started == self._jobs, f"{started:,} of {self._jobs:,} jobs were started")
        self._expect(twice == 0, f"{twice:,} jobs were started more than once, at most {most} times")
        jobs, attempt = asyncio.run(self._query_row(ATTEMPTS))
        held = jobs >= self._jobs and attempt == 1
        self._expect(held, f"the highest attempt of {jobs:,} jobs is {attempt}")

    def _check_memory(self) -> None:
        for part, (tenth, *later) in self._memory.items():
            self._expect(
                max(later) <= FLAT * tenth,
                f"{part}: {tenth:.0f} MB at a tenth, at most {max(later):.0f} MB after",
            )

    def _expect(self, held: bool, what: str) -> None:  # noqa: FBT001 - what was expected, and its sentence
        print_progress(f"{'holds' if held else 'FAILS'}: {what}")
        if not held:
            self._failed.append(what)

    def _count(self, statement: str) -> int:
        return int(asyncio.run(self._query_row(statement))[0])

    async def _query_row(self, statement: str) -> asyncpg.Record:
        connection = await asyncpg.connect(self._place.database_url)
        try:
            row = await connection.fetchrow(statement)
            assert row is not None, "each of them gives one row"
            return row
        finally:
            await connection.close()


def main() -> None:
    """Servers of its own, ended in any case."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    with (
        tempfile.TemporaryDirectory(prefix="warrener-waiting-") as folder,
        SharedServers.made() as servers,
        servers.place() as place,
    ):
        Warrener().prepare(place)
        held = Run(jobs, servers, place, Path(folder) / "starts.txt").go()
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
