"""Curve: what a tick costs as the number of schedules grows, at one and the same number of ticks a second."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import asyncpg
from tools.benchmarks.one_round import introduce, processor_times
from tools.benchmarks.place import Place
from tools.benchmarks.plan import Plan
from tools.benchmarks.processes import Workers, memory_megabytes
from tools.benchmarks.shared_servers import Counter, SharedServers
from tools.benchmarks.systems.clocks import put
from tools.benchmarks.systems.warrener_system import Warrener

from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import IntervalRule, ScheduleChoices
from warrener_contracts.schedule_words import MisfirePolicy

RATE = 50  # ticks a second, of all schedules together
_SECONDS = 20.0
_SETTLE = 5.0
EVERY_TICK = ScheduleChoices(misfire=MisfirePolicy.ALL, max_catch_up=1000, grace=timedelta(minutes=10))
"""A schedule that ticks every 20 ms is often late for the next tick: none is left out for it."""
_LATE = "SELECT count(*) FROM warrener_schedules WHERE wake_at < now() - interval '1 second'"
_FINISHED = "SELECT count(*) FROM warrener_schedules"
_FOUND = """
SELECT count(*), coalesce(extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY late)), 0),
  coalesce(extract(epoch FROM percentile_cont(0.99) WITHIN GROUP (ORDER BY late)), 0)
FROM (
  SELECT fired_at - due_at AS late FROM warrener_ticks
  WHERE due_at >= to_timestamp($1) AND due_at < to_timestamp($2) AND fired_at IS NOT NULL
) AS ticks
"""


def ticking(servers: SharedServers, plan: Plan, count: int) -> dict[str, float]:
    """Milliseconds a tick and how late it was published, with `count` schedules that tick RATE times a second
    together. Every tick's job is run to its end."""
    system = Warrener()
    with ExitStack() as stack:
        place = stack.enter_context(servers.place())
        log = Path(place.folder) / "curve.log"
        counter = Counter(system, place, servers)
        stack.callback(counter.close)
        introduce(system, place, counter, log, plan)
        workers = Workers.start(system.workers(place, plan.agents), place, log)
        stack.callback(workers.stop)
        asyncio.run(put(place, schedules(count)))
        _until(place, workers, _FINISHED, count)
        time.sleep(_SETTLE)
        _until(place, workers, _LATE, 0)
        groups = workers.by_part | {"broker": servers.broker_pids, "database": servers.database_pids}
        used, began = processor_times(groups), time.time()
        time.sleep(_SECONDS)
        spent = {name: after - used[name] for name, after in processor_times(groups).items()}
        ended = time.time()
        time.sleep(1)  # what was due at the end is published by then
        workers.check()
        ticks, p50, p99 = asyncio.run(_query(place, _FOUND, began, ended))
        return {
            "end_to_end": ticks / (ended - began),
            "cpu_ms": sum(spent.values()) / ticks * 1000,
            "cpu_scheduler_ms": spent["scheduler"] / ticks * 1000,
            "cpu_database_ms": spent["database"] / ticks * 1000,
            "lag_p50_ms": p50 * 1000,
            "lag_p99_ms": p99 * 1000,
            "memory_mb": memory_megabytes(workers.pids)[0],
        }


def schedules(count: int) -> list[SchedulePutData]:
    """So many, due one after another at equal distances."""
    step = timedelta(seconds=1 / RATE)
    return [
        SchedulePutData(
            name=f"curve.{number}",
            rule=IntervalRule(every=step * count, offset=step * number),
            job_type="noop",
            arguments={"payload": "x" * 100},
            choices=EVERY_TICK,
        )
        for number in range(count)
    ]


def _until(place: Place, workers: Workers, statement: str, wanted: int) -> None:
    deadline = time.monotonic() + 120
    while (found := asyncio.run(_query(place, statement))[0]) != wanted:
        workers.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"expected {wanted} of {statement!r}, got {found:.0f}")
        time.sleep(0.5)


async def _query(place: Place, statement: str, *parameters: float) -> Sequence[float]:
    connection = await asyncpg.connect(place.database_url)
    try:
        found = await connection.fetchrow(statement, *parameters)
        return [float(value) for value in found or ()]
    finally:
        await connection.close()
