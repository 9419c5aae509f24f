"""`make fuzz`: hostile messages to every exchange, between good jobs on real processes.

No good job may fail, and none may be late; no process may end; memory must stay flat; no message may come
back without end.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import structlog
from tests.acceptance.warren import Warren
from tests.servers.choosing import chosen_servers
from tools.chaos import clients, pieces
from tools.chaos.journal import Journal
from tools.chaos.run import LEASH
from tools.chaos.system import QUEUES, System, forget, running_servers
from tools.fuzz.hostile import Hostile, hostile
from tools.fuzz.raw_publisher import RawPublisher, Refused

from warrener_client import Client
from warrener_store import migrate

_LATE = 5.0  # seconds
_GROWTH = 100  # MiB that a process may grow by, from a fifth of the messages to the end
_BATCH = 50
_QUIET = 120.0  # seconds until no queue holds a message
_PATIENCE = 120.0


def main() -> int:
    """Run and report; 0 if all held."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=0, help="send no more after so long (0: all)")
    parser.add_argument("--keep", action="store_true", help="keep the logs of a good run")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    folder = Path(tempfile.mkdtemp(prefix="warrener-fuzz-"))
    folder.chmod(0o711)  # PostgreSQL's user has to enter it
    fuzz = Fuzz(options, folder)
    asyncio.run(fuzz.run())
    failures = fuzz.failures()
    for failure in failures:
        print(f"fuzz: {failure}", file=sys.stderr)
    if failures or options.keep:
        print(f"fuzz: logs are in {folder}")
    else:
        forget(folder)
    return 1 if failures else 0


class Fuzz:
    """One run."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options, self._folder = options, folder
        self._dice = random.Random(options.seed)
        self.sent = 0
        self.refused: Counter[str] = Counter()
        self.ended: list[str] = []
        self.failed: list[str] = []
        self.delays: list[float] = []
        self.memory: list[Mapping[str, int]] = []  # MiB of each process, at each fifth of the messages
        self.left: Mapping[str, int] = {}

    async def run(self) -> None:
        """Start the system, send, wait until all is quiet."""
        servers = chosen_servers()
        (self._folder / "effects").mkdir()
        rabbitmq = servers.rabbitmq(self._folder / "rabbitmq")
        postgres = servers.postgres(self._folder / "postgres")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running_servers(rabbitmq, postgres))
            url = await asyncio.to_thread(postgres.add_database, "chaos")
            await migrate(url)
            await pieces.add_users(rabbitmq)
            warren = Warren(self._folder, rabbitmq.url, url, url, launcher=LEASH)
            journal = Journal(self._folder)
            system = System(self._folder, rabbitmq, postgres, "chaos", warren, self._note, journal)
            system.replicas = {"scheduler": 1, "agent": 1, "supervisor": 1}
            stack.push_async_callback(system.stop)
            await system.start()
            watch = asyncio.create_task(system.keep_alive())
            stack.callback(watch.cancel)
            client = Client(rabbitmq.url, source="fuzz", connect_timeout=None)
            await client.start()
            stack.push_async_callback(client.close)
            await self._send(system, client)

    def failures(self) -> list[str]:
        """What did not hold."""
        late = [delay for delay in self.delays if delay > _LATE]
        first, last = self.memory[0], self.memory[-1]
        grown = {name: size - first.get(name, size) for name, size in last.items()}
        found = [*self.ended, *self.failed]
        if late:
            found.append(f"{len(late)} good jobs took more than {_LATE:g} s, up to {max(late):.1f} s")
        found += [f"{name} grew by {size} MiB" for name, size in grown.items() if size > _GROWTH]
        return [*found, *(f"{count} messages are left in {queue}" for queue, count in self.left.items())]

    def _note(self, what: str, detail: str) -> None:
        if what == "ended by itself":
            self.ended.append(detail)
            print(f"fuzz: {detail}", flush=True)

    async def _send(self, system: System, client: Client) -> None:
        options, began = self._options, time.monotonic()
        jobs: list[asyncio.Task[None]] = []
        publisher = asyncio.create_task(asyncio.to_thread(self._publish_all, system.rabbitmq.url, began))
        while not publisher.done():
            done = self.sent / options.messages
            if options.seconds:
                done = max(done, (time.monotonic() - began) / options.seconds)
            while len(jobs) < options.jobs * min(1.0, done):
                jobs.append(asyncio.create_task(self._job(client, len(jobs))))
            if done * 5 >= len(self.memory) + 1:
                self.memory.append(_memory(system))
            await asyncio.sleep(0.1)
        await publisher
        jobs += [asyncio.create_task(self._job(client, n)) for n in range(len(jobs), options.jobs)]
        await asyncio.gather(*jobs)
        await self._settle(system)
        self.memory.append(_memory(system))
        self._report(time.monotonic() - began)

    async def _settle(self, system: System) -> None:
        until = time.monotonic() + _QUIET
        while time.monotonic() < until:
            ready, held = [
                await asyncio.to_thread(clients.queue_lengths, system.rabbitmq, counted)
                for counted in ("messages_ready", "messages_unacknowledged")
            ]
            # Not `messages`: that has expired ones too, whose dead-lettering a forged x-death header stops.
            left = {name: ready[name] + held.get(name, 0) for name in ready}
            self.left = {name: count for name, count in left.items() if count and _is_read(name)}
            if not self.left:
                return
            await asyncio.sleep(0.5)

    async def _job(self, client: Client, number: int) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE):
                job = await client.request("chaos.short", {"seconds": 0.0})
                await job.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, a good job has failed
            self.failed.append(f"good job {number}: {type(error).__name__}: {error}")
        self.delays.append(time.monotonic() - began)

    def _publish_all(self, url: str, began: float) -> None:
        """Send everything, with a new connection after each that the broker closes."""
        options, publisher = self._options, RawPublisher(url)
        while self.sent < options.messages:
            if options.seconds and time.monotonic() - began > options.seconds:
                break
            batch = [hostile(self._dice) for _ in range(_BATCH)]
            try:
                self._publish(publisher, batch)
            except (Refused, OSError):
                publisher = self._one_by_one(url, batch)
            self.sent += len(batch)

    def _one_by_one(self, url: str, batch: list[Hostile]) -> RawPublisher:
        """Send a batch again of which the broker refused a message: that one alone is left out."""
        publisher = RawPublisher(url)
        for message in batch:
            try:
                self._publish(publisher, [message])
            except (Refused, OSError) as error:
                self.refused[str(error).partition(" '")[0]] += 1
                publisher = RawPublisher(url)
        return publisher

    @staticmethod
    def _publish(publisher: RawPublisher, batch: list[Hostile]) -> None:
        for message in batch:
            publisher.publish(*message)
        publisher.settle()

    def _report(self, seconds: float) -> None:
        delays = sorted(self.delays)
        refused = sum(self.refused.values())
        print(
            f"fuzz: seed {self._options.seed}, {self.sent} messages in {seconds:.0f} s, "
            f"{refused} refused by the broker"
        )
        for reason, count in self.refused.most_common(5):
            print(f"      {count:6}  {reason}")
        p50, p99 = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
        print(f"      good jobs: {len(delays)}, p50 {p50:.2f} s, p99 {p99:.2f} s, slowest {delays[-1]:.2f} s")
        for name in self.memory[-1]:
            sizes = " → ".join(str(memory.get(name, "?")) for memory in self.memory)
            print(f"      {name}: {sizes} MiB, at each fifth of the messages and when all was quiet")


def _is_read(queue: str) -> bool:
    """False for delay queues, and for queues of job types that no agent of the run has."""
    prefix, _, name = queue.rpartition(".")
    return prefix != "warrener.delay" and (prefix != "warrener.queue" or name in QUEUES)


def _memory(system: System) -> dict[str, int]:
    """MiB of each service."""
    found: dict[str, int] = {}
    for member in system.members:
        if member.service is not None and member.alive:
            rss = psutil.Process(member.service.process.pid).memory_info().rss
            found[member.name] = rss // 2**20
    return found


if __name__ == "__main__":
    sys.exit(main())
