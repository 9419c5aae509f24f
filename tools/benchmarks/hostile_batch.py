"""Large batches without one event in them, beside good jobs: `python -m tools.benchmarks.hostile_batch`.

A legal message to the requests exchange, `[1,1,1,…]` with 524,000 elements in less than 1 MiB, is published
ten times in a row while 100 good jobs are requested. With `--kind` its elements are 9,000 bad objects, fewer
than a batch may have, and all batches are published before the good jobs. Turns without and with the batches
follow each other in pairs, on a scheduler, a supervisor and an agent of their own. Exits with 1 unless all of
this holds: the slowest good job takes at most twice its time without the batches (median of the pairs); the
memory of the scheduler, which has run as many good jobs before, comes back within 20 %; each batch is one
parked row (of objects: a row at least); and the services log at most two lines for each batch (of objects: a
hundred).
"""

import argparse
import asyncio
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import aio_pika
import asyncpg
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers, memory_megabytes
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.warrener_system import Warrener
from tools.benchmarks.turns import print_progress

from warrener_client import Client, RequestRejected
from warrener_contracts.messages import BATCH_TYPE
from warrener_contracts.topology import REQUESTS

ELEMENTS = 524_000  # and one more in each turn, so that no two batches are the same message
SLOWER = 2.0
BACK = 1.2
LINES = 2  # of all services, for each batch
LINES_OF_OBJECTS = 100
PATIENCE = 120.0  # seconds
NUMBERS = "numbers"
BAD_OBJECTS = 9_000  # fewer than a batch may have
OBJECTS: dict[str, dict[str, object]] = {
    "fields": {"id": 7},
    "event": {"type": "x"},
    "job-type": {"data": {"job_type": "no"}},
    "arguments": {},  # `noop` expects some; written out, they would make the message larger than allowed
}
"""What is bad about the objects of a batch."""
_QUIET = 10.0  # seconds between the last turn and the look at the memory
_LOOK = 0.05

PARKED = "SELECT count(*) FROM warrener_parked"


class Peak:
    """The most memory that processes had while this was entered, in megabytes."""

    def __init__(self, pids: list[int]) -> None:
        self.megabytes = 0.0
        self._pids, self._over = pids, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            self.megabytes = max(self.megabytes, *memory_megabytes(self._pids))


class Run:
    """All pairs of turns on one set of services."""

    def __init__(self, options: argparse.Namespace, place: Place, log: Path) -> None:
        self._pairs, self._batches, self._jobs = options.pairs, options.batches, options.jobs
        self._kind: str = options.kind
        self._place, self._log = place, log
        self._failed = False

    async def go(self) -> bool:
        """True if everything held that was expected."""
        with ExitStack() as stack:
            workers = Workers.start(Warrener().workers(self._place, 1), self._place, self._log)
            stack.callback(workers.stop)
            scheduler = workers.by_part["scheduler"]
            async with Client(self._place.broker_url) as client:
                await self._introduce(client)
                for _ in range(self._pairs):
                    await self._slowest(client)
                parked_before = await self._parked()
                before, lines_before = memory_megabytes(scheduler)[0], self._lines()
                with Peak(scheduler) as peak:
                    ratios = [await self._pair(client, number) for number in range(self._pairs)]
                await asyncio.sleep(_QUIET)
            workers.check()
            after, lines = memory_megabytes(scheduler)[0], self._lines() - lines_before
            parked = await self._parked() - parked_before
        published = self._pairs * self._batches
        ratio = statistics.median(ratios)
        self._expect(
            ratio <= SLOWER,
            f"the slowest good job takes {ratio:.2f} times its time without the batches (median)",
        )
        self._expect(
            after <= BACK * before,
            f"the scheduler has {before:.0f} MB before, {peak.megabytes:.0f} at its peak, {after:.0f} after",
        )
        whole = self._kind == NUMBERS
        parked_as_expected = parked == published if whole else parked >= published
        self._expect(parked_as_expected, f"{parked} parked rows for {published} batches")
        max_lines = (LINES if whole else LINES_OF_OBJECTS) * published
        self._expect(lines <= max_lines, f"{lines} log lines for {published} batches")
        return not self._failed

    async def _pair(self, client: Client, number: int) -> float:
        alone, parked_before = await self._slowest(client), await self._parked()
        if self._kind == NUMBERS:
            bodies = [_batch(digit % 10, ELEMENTS + number) for digit in range(self._batches)]
        else:
            bodies = [_objects(self._kind, f"{number}.{digit}") for digit in range(self._batches)]
        publishing = asyncio.create_task(asyncio.to_thread(_publish, self._place.broker_url, bodies))
        if self._kind != NUMBERS:
            await publishing  # so that all wait in front of the good jobs
        beside = await self._slowest(client)
        await publishing
        await self._until_parked(parked_before + self._batches)
        print_progress(
            f"slowest good job: {alone * 1000:.0f} ms without, {beside * 1000:.0f} ms with the batches"
        )
        return beside / alone

    async def _introduce(self, client: Client) -> None:
        """One job is done: the job type is known, and every service works."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await (await client.request("noop", {"payload": ""})).result()
                except RequestRejected:  # no agent has announced it yet
                    await asyncio.sleep(_LOOK)
                else:
                    return

    async def _until_parked(self, rows: int) -> None:
        """Or until that takes too long: fewer rows fail the run at its end."""
        deadline = time.perf_counter() + PATIENCE
        while await self._parked() < rows:
            if time.perf_counter() > deadline:
                return
            await asyncio.sleep(_LOOK)

    async def _slowest(self, client: Client) -> float:
        """Seconds from the request of a good job to its result, of the slowest."""

        async def one() -> float:
            began = time.perf_counter()
            job = await client.request("noop", {"payload": "good"})
            await job.result(timeout=PATIENCE)
            return time.perf_counter() - began

        return max(await asyncio.gather(*(one() for _ in range(self._jobs))))

    async def _parked(self) -> int:
        connection = await asyncpg.connect(self._place.database_url)
        try:
            return int(await connection.fetchval(PARKED))
        finally:
            await connection.close()

    def _lines(self) -> int:
        return len(self._log.read_bytes().splitlines())

    def _expect(self, held: bool, what: str) -> None:  # noqa: FBT001 - what was expected, and its sentence
        print_progress(f"{'holds' if held else 'FAILS'}: {what}")
        self._failed |= not held


def _batch(digit: int, elements: int) -> bytes:
    return json.dumps([digit] * elements, separators=(",", ":")).encode()


def _objects(kind: str, unique: str) -> bytes:
    event = {
        "specversion": "1.0",
        "type": "job.requested.v1",
        "source": unique[-9:],
        "data": {"job_type": "noop"},
    }
    changed = OBJECTS[kind]
    objects = [{**event, "id": str(number), **changed} for number in range(BAD_OBJECTS)]
    return json.dumps(objects, separators=(",", ":")).encode()


def _publish(url: str, bodies: list[bytes]) -> None:
    """As any AMQP client would, and from a thread of its own."""

    async def publish() -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            exchange = await channel.get_exchange(REQUESTS)
            for body in bodies:
                await exchange.publish(
                    aio_pika.Message(body, content_type=BATCH_TYPE, delivery_mode=2), "noop"
                )

    asyncio.run(publish())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=7, help="turns without and with the batches (default 7)")
    parser.add_argument("--batches", type=int, default=10, help="batches of a turn, at most 10 (default 10)")
    parser.add_argument("--jobs", type=int, default=100, help="good jobs of a turn (default 100)")
    parser.add_argument(
        "--kind", choices=(NUMBERS, *OBJECTS), default=NUMBERS, help="elements of a batch (default numbers)"
    )
    options = parser.parse_args()
    if not (1 <= options.pairs <= 250 and 1 <= options.batches <= 10 and options.jobs >= 1):
        parser.error("expected 1 to 250 pairs, 1 to 10 batches and at least one job")
    return options


def main() -> None:
    """Servers of its own, ended in any case."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with (
        tempfile.TemporaryDirectory(prefix="warrener-hostile-") as folder,
        SharedServers.made() as servers,
        servers.place() as place,
    ):
        Warrener().prepare(place)
        held = asyncio.run(Run(options, place, Path(folder) / "services.log").go())
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
