"""What deleting costs those who run jobs: `python -m tools.benchmarks.prune [OLD]`.

A PostgreSQL of its own with OLD (300,000) old jobs. Batches of jobs are inserted and succeed in short turns,
without and with a scheduler's pruner beside them; then the pruner goes on alone until nothing old is left.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import asyncpg
from tests.servers.postgres import PrivatePostgres
from tests.store_rows import queued_job

from warrener_runtime.clock import SystemClock
from warrener_scheduler.retention.pruner import PruneBatch, Pruner, TickPruner
from warrener_scheduler.settings import RetentionSettings
from warrener_store import Store, migrate, open_store
from warrener_store.jobs.views import Success

OLD = 300_000
RETAINED = 1_000  # old parents of a job that waits, and that many of these
BATCH = 200
BATCHES = 10  # in one turn
PAIRS = 15  # at most

FILL = """
INSERT INTO warrener_jobs (
  job_id, parent_id, job_type, queue, arguments, guarantee, policy, source, requested_at, accepted_at,
  request_hash, version, state, attempt, failures, losses, watchers, wake_at, finished_at, updated_at)
SELECT {id}, {parent}, 'flights.load', 'default', '{{"path": "2013-01-01.csv"}}', 'idempotent', '{{}}',
  'test', moment, moment, '', 2, '{state}', {attempt}, 0, 0, '[]', {wake}, {finished}, moment
FROM (
  SELECT n, now() - interval '9 days' + n * interval '1 millisecond' AS moment
  FROM generate_series(1, {many}) AS n
) AS jobs
"""
DONE = {"state": "succeeded", "attempt": 1, "wake": "NULL", "finished": "moment", "parent": "NULL"}
WAITS = {"state": "waiting", "attempt": 0, "wake": "now() + interval '1 year'", "finished": "NULL"}
PARENT = "md5('parent' || n)::uuid"
COUNTED = (
    "INSERT INTO warrener_job_counts SELECT job_type, queue, state, 0, count(*) "
    "FROM warrener_jobs GROUP BY 1, 2, 3"
)
LEFT = "SELECT count(*) FROM warrener_jobs WHERE finished_at < now() - interval '7 days'"


async def measure(url: str, old: int) -> None:
    """Fill, take turns, report."""
    await migrate(url)
    connection = await asyncpg.connect(url)
    await connection.execute(FILL.format(id="gen_random_uuid()", many=old, **DONE))
    await connection.execute(FILL.format(id=PARENT, many=RETAINED, **DONE))
    await connection.execute(FILL.format(id="gen_random_uuid()", parent=PARENT, many=RETAINED, **WAITS))
    await connection.execute(COUNTED)
    await connection.execute("ANALYZE")
    store, clock = open_store(url), SystemClock()
    await store.start()
    pruner = Pruner(
        store,
        clock,
        RetentionSettings(),
        holder="benchmark",
        tick_pruner=TickPruner(store, clock, keep=timedelta(days=90), newest=100),
    )
    steps, began = pruner.steps(), perf_counter()
    await turn(store)
    plain: list[float] = []
    beside: list[float] = []
    ended = False
    while not ended and len(plain) < PAIRS:
        plain.append(await turn(store))
        pruned = asyncio.create_task(prune_until(steps, done := asyncio.Event()))
        beside.append(await turn(store))
        done.set()
        ended = await pruned
    report(plain, beside, old)
    since, rows = perf_counter(), 0
    async for step in steps:
        rows += step.rows
    print(f"the rest alone: {rows:,} rows in {perf_counter() - since:.0f} s, pauses included", flush=True)
    print(f"left: {await connection.fetchval(LEFT)} old jobs, of which {RETAINED} have a child that waits")
    print(f"whole run: {perf_counter() - began:.0f} s")
    await store.close()
    await connection.close()


async def prune_until(steps: AsyncGenerator[PruneBatch], done: asyncio.Event) -> bool:
    """Batches until the turn is over; True if the pass is."""
    while not done.is_set():
        if await anext(steps, None) is None:
            return True
    return False


async def turn(store: Store) -> float:
    """Microseconds a job: inserted, and ended by its success."""
    clock, began = SystemClock(), perf_counter()
    for _ in range(BATCHES):
        now = clock.now()
        rows = [
            queued_job(accepted_at=now, requested_at=now, updated_at=now, wake_at=now + timedelta(hours=1))
            for _ in range(BATCH)
        ]
        await store.insert_jobs(rows)
        ended = await store.succeed_jobs([Success(row.job_id, 1, "a1", None, now, now) for row in rows], now)
        assert len(ended) == BATCH
    return (perf_counter() - began) / (BATCHES * BATCH) * 1e6


def report(plain: list[float], beside: list[float], old: int) -> None:
    """The median of the pairs' ratios, and the range of the middle half of them."""
    ratios = sorted(with_ / without for without, with_ in zip(plain, beside, strict=True))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    print(f"{old:,} old jobs; {len(ratios)} pairs of {BATCHES * BATCH:,} jobs")
    alone, both = statistics.median(plain), statistics.median(beside)
    print(f"us a job: {alone:.0f} alone, {both:.0f} beside the pruner")
    print(f"ratio: {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})", flush=True)


def main() -> None:
    """A server of its own, ended in any case."""
    old = int(sys.argv[1]) if len(sys.argv) > 1 else OLD
    with tempfile.TemporaryDirectory(prefix="warrener-prune-") as folder:
        Path(folder).chmod(0o755)  # the server's user passes through it
        server = PrivatePostgres(Path(folder) / "postgres")
        server.start()
        try:
            asyncio.run(measure(server.add_database("prune"), old))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
