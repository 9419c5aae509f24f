"""The cost of suspended workflows while nothing happens: `python -m tools.benchmarks.suspended [COUNT]
[--sqlite]`.

So many workflows (100,000), and first a tenth of them, wait for a day, in PostgreSQL or SQLite, beside a
scheduler and a supervisor. Printed are, with none, a tenth and all: messages in the broker, the time of a
sweep that finds none due, rows read and processor time a second, and memory; and the cost of a look at those
that are due, as each is after a quarter of an hour.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import UUID, uuid4

import asyncpg
from tests.store_rows import queued_job
from tools.benchmarks.one_round import processor_times
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers, memory_megabytes
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.warrener_system import Warrener
from tools.benchmarks.turns import print_progress

from warrener_contracts.events import Answer, Call, CallKind, Suspension
from warrener_contracts.state_machine import JobState
from warrener_store import Store, open_store
from warrener_store.workflows.rows import TurnRow

COUNT = 100_000
_BATCH = 1_000
_DAY, _QUARTER = timedelta(days=1), timedelta(minutes=15)
_CALM = 15.0  # seconds of which the cost is measured
_SWEEPS = 100
_LOOKED_AT = 3_000
_LOOK, _WITHIN = 0.5, 400.0
_READ = "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint FROM pg_stat_user_tables"


async def suspend(store: Store, count: int) -> list[UUID]:
    """Insert workflows that have called one job, and now wait for a day or for a signal."""
    ids: list[UUID] = []
    while len(ids) < count:
        now = datetime.now(UTC)
        waits = {"state": JobState.SUSPENDED, "attempt": 2, "suspensions": 2, "wake_at": now + _QUARTER}
        rows = [
            queued_job(job_type="orders.fulfil", updated_at=now, **waits)
            for _ in range(min(_BATCH, count - len(ids)))
        ]
        await store.insert_jobs(rows)
        await store.keep_suspensions([turn for row in rows for turn in _turns(row.job_id, now)])
        ids += [row.job_id for row in rows]
    return ids


def _turns(job_id: UUID, now: datetime) -> Sequence[TurnRow]:
    reserve = Call(call_id="0/job/reserve#1", kind=CallKind.JOB, name="reserve", job_id=uuid4())
    approved = Call(call_id="0/signal/approved#1", kind=CallKind.SIGNAL, name="approved")
    answer = Answer(call_id=reserve.call_id, at=now, state=JobState.SUCCEEDED, result={"box": 7})
    first, second = (
        Suspension(calls=(reserve,), began_at=now),
        Suspension(calls=(approved,), wake_at=now + _DAY),
    )
    return (
        TurnRow(job_id=job_id, attempt=1, began_at=now, suspension=first, suspended_at=now),
        TurnRow(
            job_id=job_id, attempt=2, answers=(answer,), began_at=now, suspension=second, suspended_at=now
        ),
    )


class Run:
    """One store, and what is seen of it."""

    def __init__(self, servers: SharedServers, place: Place, services: Workers, store: Store) -> None:
        self._servers, self._place, self._services, self._store = servers, place, services, store
        self._groups = services.by_part | {"database": servers.database_pids}

    async def measure(self, count: int) -> None:
        """Print what so many cost in a second in which nothing happens."""
        took: list[float] = []
        for _ in range(_SWEEPS):
            now, began = datetime.now(UTC), time.perf_counter()
            assert not await self._store.claim_due([JobState.SUSPENDED], now, now + _QUARTER, _BATCH)
            took.append((time.perf_counter() - began) * 1000)
        used, read = processor_times(self._groups), await self._rows_read()
        await asyncio.sleep(_CALM)
        self._services.check()
        spent = {
            part: (after - used[part]) / _CALM * 1000 for part, after in processor_times(self._groups).items()
        }
        rows = "" if read is None else f"{((await self._rows_read() or 0) - read) / _CALM:.0f} rows read, "
        print(
            f"{count:7} suspended: {self._servers.in_broker(self._place)} messages; a sweep that finds none "
            f"{median(took):.2f} ms; in a second {rows}"
            + ", ".join(f"{part} {each:.1f} ms" for part, each in spent.items())
            + f"; {self._memory()}"
        )

    async def sweep(self, ids: Sequence[UUID]) -> None:
        """Make these due, and print what it costs to look at each."""
        used, began = processor_times(self._groups), time.perf_counter()
        for at in range(0, len(ids), _BATCH):
            await self._store.wake_suspended(ids[at : at + _BATCH], datetime.now(UTC))
        woken, memory = time.perf_counter() - began, 0.0
        while await self._any_due(ids):
            memory = max(memory, *memory_megabytes(self._services.by_part["supervisor"]))
            if time.perf_counter() - began > _WITHIN:
                raise RuntimeError(f"expected all to be looked at within {_WITHIN} s, got some that were not")
            await asyncio.sleep(_LOOK)
        seconds = time.perf_counter() - began
        spent = {part: after - used[part] for part, after in processor_times(self._groups).items()}
        print(
            f"{len(ids):7} due at once: looked at in {seconds:.1f} s (made due in {woken:.1f} s), "
            f"{sum(spent.values()) / len(ids) * 1000:.2f} ms of processor time each: "
            + ", ".join(f"{part} {each:.1f} s" for part, each in spent.items())
            + f"; {self._servers.in_broker(self._place)} messages; supervisor at most {memory:.0f} MB"
        )

    async def _any_due(self, ids: Sequence[UUID]) -> bool:
        """True if one of the last is due: the first that were woken are looked at first."""
        rows, soon = await self._store.jobs_by_id(ids[-_BATCH:]), datetime.now(UTC) + _QUARTER / 2
        return any(row.wake_at is None or row.wake_at < soon for row in rows.values())

    async def _rows_read(self) -> int | None:
        if self._place.database_url.startswith("sqlite"):
            return None
        connection = await asyncpg.connect(self._place.database_url)
        try:
            return int(await connection.fetchval(_READ))
        finally:
            await connection.close()

    def _memory(self) -> str:
        found = {part: memory_megabytes(pids)[0] for part, pids in self._services.by_part.items()}
        return ", ".join(f"{part} {megabytes:.0f} MB" for part, megabytes in found.items())


async def run(servers: SharedServers, place: Place, services: Workers, count: int) -> None:
    """With none, a tenth, and all."""
    store = open_store(place.database_url)
    await store.start()
    try:
        one = Run(servers, place, services, store)
        await asyncio.sleep(5.0)
        await one.measure(0)
        ids: list[UUID] = []
        for more in (count // 10, count - count // 10):
            began = time.perf_counter()
            ids += await suspend(store, more)
            print_progress(f"{more} more were suspended in {time.perf_counter() - began:.0f} s")
            await one.measure(len(ids))
            await one.sweep(ids[:_LOOKED_AT])
    finally:
        await store.close()


def main() -> None:
    """Servers of its own, ended in any case."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    count = next((int(word) for word in sys.argv[1:] if word.isdecimal()), COUNT)
    with (
        TemporaryDirectory(prefix="warrener-suspended-") as folder,
        SharedServers.made() as servers,
        servers.place() as shared,
        ExitStack() as stack,
    ):
        place = replace(shared, folder=folder)
        if "--sqlite" in sys.argv[1:]:
            place = replace(place, database_url=f"sqlite:///{folder}/state.db")
        system = Warrener()
        system.prepare(place)
        services = Workers.start(system.workers(place, 0), place, Path(folder, "suspended.log"))
        stack.callback(services.stop)
        asyncio.run(run(servers, place, services, count))


if __name__ == "__main__":
    main()
