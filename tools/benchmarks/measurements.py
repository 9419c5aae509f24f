"""Points of a curve: ours, each from a fresh place."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tools.benchmarks.driver_client import Driver
from tools.benchmarks.figures import summary
from tools.benchmarks.one_round import Stage, end_to_end, introduce, processor_times, until
from tools.benchmarks.place import Place
from tools.benchmarks.plan import Plan
from tools.benchmarks.processes import Workers, memory_megabytes
from tools.benchmarks.shared_servers import Counter, SharedServers
from tools.benchmarks.systems.warrener_system import Warrener


def throughput(servers: SharedServers, plan: Plan) -> dict[str, float]:
    """Jobs a second end to end and milliseconds a job, medians of as many turns as the plan has pairs."""
    return medians_of(in_turns(servers, plan, [lambda _: None])[0])


def in_turns(
    servers: SharedServers, plan: Plan, firsts: Sequence[Callable[[Place], None]]
) -> list[list[dict[str, float]]]:
    """The figures of each turn in several places that are all there at once, by place: a machine that grows
    slower meanwhile does so for all. Each of `firsts` is done in its place once the tables are there."""
    with ExitStack() as stack:
        stages = [
            begun(stack.enter_context(servers.place()), servers, plan, stack=stack, first=first)
            for first in firsts
        ]
        turns = [
            [
                end_to_end(stage, workers).figures() | {"memory_mb": memory_megabytes(workers.pids)[0]}
                for stage, workers in stages
            ]
            for _ in range(plan.pairs)
        ]
        return [[turn[place] for turn in turns] for place in range(len(stages))]


def medians_of(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {name: figure.median for name, figure in summary(turns).items()}


def draining(servers: SharedServers, plan: Plan, backlog: int) -> dict[str, float]:
    """The same while `backlog` jobs wait before the ones that are measured: all of it is drained."""
    system = Warrener()
    with ExitStack() as stack:
        place = stack.enter_context(servers.place())
        log = Path(place.folder) / "curve.log"
        counter = Counter(system, place, servers)
        stack.callback(counter.close)
        introduce(system, place, counter, log, plan)
        driver = stack.enter_context(Driver.made(system.driver, place, log))
        before, jobs = counter.finished(), backlog + plan.jobs
        cost = driver.request(jobs, plan.payload)
        groups = {"broker": servers.broker_pids, "database": servers.database_pids}
        used, began = processor_times(groups), time.perf_counter()
        workers = Workers.start(system.workers(place, plan.agents), place, log)
        stack.callback(workers.stop)
        most = 0.0
        for tenth in range(1, 11):
            until(counter, before + jobs * tenth // 10, workers)
            most = max(most, memory_megabytes(workers.pids)[0])
        done_at = time.perf_counter()
        groups |= {"python": workers.pids}
        spent = sum(processor_times(groups).values()) - sum(used.values()) + cost.cpu
        return {"end_to_end": jobs / (done_at - began), "cpu_ms": spent / jobs * 1000, "memory_mb": most}


def begun(
    place: Place, servers: SharedServers, plan: Plan, *, stack: ExitStack, first: Callable[[Place], None]
) -> tuple[Stage, Workers]:
    system, log = Warrener(), Path(place.folder) / "curve.log"
    counter = Counter(system, place, servers)
    stack.callback(counter.close)
    introduce(system, place, counter, log, plan)
    first(place)
    driver = stack.enter_context(Driver.made(system.driver, place, log))
    workers = Workers.start(system.workers(place, plan.agents), place, log)
    stack.callback(workers.stop)
    before = counter.finished()
    driver.request(100, plan.payload)  # connected, prepared and warm
    until(counter, before + 100, workers)
    return Stage(system, place, servers, plan, counter, driver, log), workers
