"""What a limit costs: `python -m tools.benchmarks.limits [LINES]`.

First jobs with and without a limit in turns (A B A B), on a scheduler, a supervisor and an agent with
PostgreSQL: all jobs of a turn are requested at once, and the ratio of their times is taken pair by pair. Then
what it costs to free a slot and to admit the next job while so many wait before its gate (default: 1,000,
100,000 and 1,000,000).
"""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import uuid4

from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.warrener_system import Warrener
from tools.benchmarks.turns import print_progress

from warrener_client import Client, JobSpec, RequestRejected
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import TOPOLOGY, Topology, dispatch_queue
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.clock import SystemClock
from warrener_runtime.telemetry import Telemetry
from warrener_store import Store
from warrener_store.gates.rows import SLOT_RECHECK, GateWaiter, encode_gates, slot_claim
from warrener_store.jobs.rows import JobRow
from warrener_store.opening import open_store
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.limits import SlotKeeper
from warrener_supervisor.trace_spans import JobSpans

_JOBS, _PAIRS, _TRIES, _WITHIN = 1_000, 6, 30, 300.0
_LINES = (1_000, 100_000, 1_000_000)
_SLOTS, _ROUNDS, _CHUNK = 10, 200, 5_000
_GATE = "job/limited/acme"


# -- with and without a limit --------------------------------------------------------------------------------


async def compare(place: Place) -> None:
    """Print the times of turns of jobs with and without a limit, and the ratio of each pair."""
    store = open_store(place.database_url)
    await store.start()
    try:
        async with Client(place.broker_url) as client:
            await _until_known(client)
            ratios: list[float] = []
            for pair in range(_PAIRS + 1):
                plain, limited = await _turn(client, store, "plain"), await _turn(client, store, "limited")
                if pair:  # the first one warms up
                    ratios.append(limited / plain)
                    print(f"plain {_JOBS / plain:6.0f} jobs/s, limited {_JOBS / limited:6.0f} jobs/s")
            print(f"limited / plain: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    finally:
        await store.close()


async def _turn(client: Client, store: Store, job_type: str) -> float:
    """Seconds until so many jobs have ended that were requested at once, ten tenants' in turn."""
    before, began = await _succeeded(store, job_type), perf_counter()
    specs = [JobSpec(job_type, {"tenant": f"t{number % 10}"}) for number in range(_JOBS)]
    async for _ in client.request_many(specs, want_results=False):
        pass
    while await _succeeded(store, job_type) < before + _JOBS:
        if perf_counter() - began > _WITHIN:
            raise RuntimeError(f"expected {_JOBS} jobs of {job_type} to end within {_WITHIN} s")
        await asyncio.sleep(0.02)
    return perf_counter() - began


async def _succeeded(store: Store, job_type: str) -> int:
    counts = await store.count_jobs()
    return sum(one.jobs for one in counts if (one.job_type, one.state) == (job_type, JobState.SUCCEEDED))


async def _until_known(client: Client) -> None:
    for _ in range(_TRIES):
        try:
            await (await client.request("limited", {"tenant": "t0"})).result(timeout=_WITHIN)
        except RequestRejected:
            await asyncio.sleep(1.0)
        else:
            return
    raise RuntimeError(f"expected the job types to be known within {_TRIES} s")


# -- before a line -------------------------------------------------------------------------------------------


async def admit_before(url: str, lines: Sequence[int]) -> None:
    """Print what one release and admission costs before lines of these lengths."""
    store, clock = open_store(url), SystemClock()
    await store.start()
    broker = MemoryBroker(clock)
    bus = MemoryBus(broker, name="benchmark")
    await bus.start()
    await bus.declare(TOPOLOGY)
    await bus.declare(Topology((), (dispatch_queue("default"),)))
    ports = SupervisorPorts(bus, store, clock, Timings())
    keeper = SlotKeeper(ports, spans=JobSpans(Telemetry.disabled(), clock), listed_jobs=set)
    try:
        holders = [await _job(store, clock.now(), waits=False) for _ in range(_SLOTS)]
        await store.take_slots([slot_claim(row, clock.now()) for row in holders], clock.now())
        waiting = 0
        for length in lines:
            while waiting < length:
                waiting += await _put_in_line(store, clock.now(), min(_CHUNK, length - waiting))
            await _one_by_one(store, keeper, 20)
            times = await _one_by_one(store, keeper, _ROUNDS)
            waiting -= 20 + _ROUNDS
            worst = sorted(times)[int(0.95 * len(times))]
            shown = f"{median(times) * 1e3:5.2f} ms a release with its admission, p95 {worst * 1e3:.2f}"
            print(f"{length:9,} in line: {shown}")
    finally:
        await bus.close()
        broker.stop()
        await store.close()


async def _one_by_one(store: Store, keeper: SlotKeeper, rounds: int) -> list[float]:
    times: list[float] = []
    for _ in range(rounds):
        (slot,) = await store.slots_of(_GATE, 1)
        began = perf_counter()
        await keeper.release([(slot.job_id, slot.attempt)])
        times.append(perf_counter() - began)
        (after,) = await store.slots_of(_GATE, 1)
        if after.job_id == slot.job_id:
            raise RuntimeError("expected another job in its place, got the same")
    return times


async def _put_in_line(store: Store, now: datetime, count: int) -> int:
    rows = [_row(now, waits=True) for _ in range(count)]
    await store.insert_jobs(rows)
    await store.add_waiters([GateWaiter(row.job_id, _GATE, now) for row in rows])
    return count


async def _job(store: Store, now: datetime, *, waits: bool) -> JobRow:
    row = _row(now, waits=waits)
    await store.insert_jobs([row])
    return row


def _row(now: datetime, *, waits: bool) -> JobRow:
    return JobRow(
        job_id=uuid4(),
        job_type="limited",
        queue="default",
        arguments={},
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        source="benchmark",
        requested_at=now,
        accepted_at=now,
        gates=encode_gates([(_GATE, _SLOTS)]),
        state=JobState.WAITING if waits else JobState.QUEUED,
        attempt=0 if waits else 1,
        due_at=now if waits else None,
        wake_at=now + SLOT_RECHECK,
        dispatched_at=None if waits else now,
        updated_at=now,
    )


def main() -> None:
    """Servers of its own, ended in any case."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    lines = [int(word) for word in sys.argv[1:] if word.isdecimal()] or list(_LINES)
    system = Warrener(environment={"WARRENER_AGENT_SLOTS": "125"})
    with TemporaryDirectory(prefix="warrener-limits-") as folder, SharedServers.made() as servers:
        with servers.place() as shared, ExitStack() as stack:
            place = replace(shared, folder=folder)
            system.prepare(place)
            commands = list(system.workers(place, 1))
            arguments = (*commands[-1].arguments[:-1], "tools.benchmarks.apps.limited_jobs")
            commands[-1] = replace(commands[-1], arguments=arguments)
            workers = Workers.start(commands, place, Path(folder, "limits.log"))
            stack.callback(workers.stop)
            asyncio.run(compare(place))
        with servers.place() as place:
            system.prepare(place)
            print_progress("lines")
            asyncio.run(admit_before(place.database_url, lines))


if __name__ == "__main__":
    main()
