"""One round of one system: from nothing to its figures."""

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks.asking import Driver
from tests.benchmarks.figures import percentile
from tests.benchmarks.grounds import Counter, Grounds
from tests.benchmarks.place import Place
from tests.benchmarks.plan import Plan
from tests.benchmarks.processes import Workers, cpu_seconds, memory_megabytes
from tests.benchmarks.systems.port import System

_STANDSTILL = 60.0  # seconds without one more finished job
_SETTLE = 1.0  # seconds for workers that have just done their last job to do what they do then


@dataclass(frozen=True, slots=True)
class Round:
    """The figures of one round; rates in jobs a second, latencies in milliseconds."""

    asked: float
    drained: float
    end_to_end: float
    cpu_ms: float
    cpu_python_ms: float
    cpu_broker_ms: float
    cpu_database_ms: float
    idle_start_p50: float
    idle_start_p99: float
    idle_result_p50: float
    idle_result_p99: float
    loaded_start_p50: float
    loaded_start_p99: float
    loaded_result_p50: float
    loaded_result_p99: float
    memory_mb: float
    memory_all_mb: float
    processes: int
    cold_start_s: float

    def figures(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


def measure(system: System, grounds: Grounds, plan: Plan) -> Round:
    """All figures of one round. The order: cold and drained, end to end, idle, half load, memory."""
    with ExitStack() as stack:
        place = stack.enter_context(grounds.place())
        log = Path(place.folder) / f"{system.name}.log"
        counter = Counter(system, place, grounds)
        stack.callback(counter.close)
        introduce(system, place, counter, log, plan)
        driver = stack.enter_context(Driver.made(system.name.partition("-")[0], place, log))
        try:
            return _figures(system, place, counter, driver, log, plan, grounds, stack)
        except Exception as error:
            error.add_note(f"{system.name} said last:\n{log.read_text(errors='replace')[-3000:]}")
            raise


def _figures(  # noqa: PLR0917
    system: System,
    place: Place,
    counter: Counter,
    driver: Driver,
    log: Path,
    plan: Plan,
    grounds: Grounds,
    stack: ExitStack,
) -> Round:
    jobs = plan.jobs_of(system.name)
    before = counter.finished()
    driver.ask(jobs, plan.payload)
    counter.expect(jobs)

    began = time.perf_counter()
    workers = Workers.start(system.workers(place, plan.workers), place, log)
    stack.callback(workers.stop)
    first, first_at = until(counter, before + 1, workers, every=0.02)
    _, drained_at = until(counter, before + jobs, workers)
    time.sleep(_SETTLE)

    groups = {"python": workers.pids, "broker": grounds.broker_pids, "database": grounds.database_pids}
    before, used, at = counter.finished(), processor_times(groups), time.perf_counter()
    asked = driver.ask(jobs, plan.payload)
    counter.expect(jobs)
    _, done_at = until(counter, before + jobs, workers)
    spent = {name: (after - used[name]) / jobs * 1000 for name, after in processor_times(groups).items()}
    spent["python"] += asked.cpu / jobs * 1000
    rate = jobs / (done_at - at)

    counter.expect(plan.samples + plan.loaded_samples)
    idle = driver.latency(plan.samples)
    loaded = driver.latency(plan.loaded_samples, rate / 2)
    memory = memory_megabytes(workers.pids)
    return Round(
        asked=jobs / asked.seconds,
        drained=(before - first) / max(drained_at - first_at, 1e-9) if before > first else rate,
        end_to_end=rate,
        cpu_ms=sum(spent.values()),
        cpu_python_ms=spent["python"],
        cpu_broker_ms=spent["broker"],
        cpu_database_ms=spent["database"],
        idle_start_p50=percentile(idle.started, 50),
        idle_start_p99=percentile(idle.started, 99),
        idle_result_p50=percentile(idle.seen, 50),
        idle_result_p99=percentile(idle.seen, 99),
        loaded_start_p50=percentile(loaded.started, 50),
        loaded_start_p99=percentile(loaded.started, 99),
        loaded_result_p50=percentile(loaded.seen, 50),
        loaded_result_p99=percentile(loaded.seen, 99),
        memory_mb=memory[0],
        memory_all_mb=sum(memory),
        processes=len(memory),
        cold_start_s=first_at - began,
    )


def introduce(system: System, place: Place, counter: Counter, log: Path, plan: Plan) -> None:
    """Tables, queues and job types come to be, as they do once in a system's life; then nothing runs."""
    system.prepare(place)
    workers = Workers.start(system.workers(place, plan.workers), place, log)
    try:
        time.sleep(_SETTLE)
        with Driver.made(system.name.partition("-")[0], place, log) as driver:
            deadline = time.perf_counter() + _STANDSTILL
            while counter.finished() < 1:
                if time.perf_counter() > deadline:
                    raise RuntimeError(f"expected a first job done within {_STANDSTILL:.0f} s, got none")
                driver.ask(1, plan.payload)  # more than once where the first came before its job type was known
                counter.expect(1)
                time.sleep(_SETTLE)
    finally:
        workers.stop()


def until(
    counter: Counter, jobs: int, workers: Workers, *, every: float = 0.1, within: float = _STANDSTILL
) -> tuple[int, float]:
    """Wait until so many are finished; how many are, and when."""
    last, last_at = counter.finished(), time.perf_counter()
    while last < jobs:
        time.sleep(every)
        workers.check()
        found, now = counter.finished(), time.perf_counter()
        if found > last:
            last, last_at = found, now
        elif now - last_at > within:
            raise RuntimeError(f"expected {jobs} finished jobs, got {last} and none more for {within:.0f} s")
    return last, time.perf_counter()


def processor_times(groups: dict[str, list[int]]) -> dict[str, float]:
    return {name: cpu_seconds(pids) for name, pids in groups.items()}

