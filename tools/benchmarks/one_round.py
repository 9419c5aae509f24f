"""One round of one system: from nothing to its figures."""

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.benchmarks.driver_client import Driver
from tools.benchmarks.figures import percentile
from tools.benchmarks.place import Place
from tools.benchmarks.plan import Plan
from tools.benchmarks.processes import Workers, cpu_seconds, memory_megabytes
from tools.benchmarks.shared_servers import Counter, SharedServers
from tools.benchmarks.systems.port import System

_STANDSTILL = 60.0  # seconds without one more finished job
_SETTLE = 1.0  # seconds for workers that have just done their last job to do what they do then


@dataclass(frozen=True, slots=True)
class Round:
    """The figures of one round; rates in jobs a second, latencies in milliseconds."""

    bulk: float
    requested: float
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
    parts: dict[str, float]  # processor milliseconds a job, by part of the system

    def figures(self) -> dict[str, float]:
        """By name."""
        found = asdict(self)
        return found | {f"cpu_{part}_ms": spent for part, spent in found.pop("parts").items()}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Jobs a second, and processor milliseconds a job of broker, database and each part in Python."""

    requested: float
    rate: float
    broker: float
    database: float
    parts: dict[str, float]

    @property
    def python(self) -> float:
        """All parts in Python, the asker among them."""
        return sum(self.parts.values())

    @property
    def spent(self) -> float:
        """Everything together."""
        return self.python + self.broker + self.database

    def figures(self) -> dict[str, float]:
        """By the names that a round has for them."""
        return {
            "requested": self.requested,
            "end_to_end": self.rate,
            "cpu_ms": self.spent,
            "cpu_python_ms": self.python,
            "cpu_broker_ms": self.broker,
            "cpu_database_ms": self.database,
        }


@dataclass(frozen=True, slots=True)
class Stage:
    """What a round is measured with."""

    system: System
    place: Place
    servers: SharedServers
    plan: Plan
    counter: Counter
    driver: Driver
    log: Path

    @property
    def jobs(self) -> int:
        """How many are requested for at once."""
        return self.plan.jobs_of(self.system.name)


def measure(system: System, servers: SharedServers, plan: Plan) -> Round:
    """All figures of one round. The order: cold and drained, end to end, idle, half load, memory."""
    with ExitStack() as stack:
        place = stack.enter_context(servers.place())
        log = Path(place.folder) / f"{system.name}.log"
        counter = Counter(system, place, servers)
        stack.callback(counter.close)
        introduce(system, place, counter, log, plan)
        driver = stack.enter_context(Driver.made(system.driver, place, log))
        stage = Stage(system, place, servers, plan, counter, driver, log)
        try:
            before = counter.finished()
            bulk = stage.jobs / driver.request(stage.jobs, plan.payload).seconds
            counter.expect(stage.jobs)
            began = time.perf_counter()
            workers = Workers.start(system.workers(place, plan.workers_of(system.name)), place, log)
            stack.callback(workers.stop)
            figures = _drained(stage, workers, before, began)
            throughput = end_to_end(stage, workers)
            figures |= throughput.figures() | _latencies(stage, throughput.rate)
            memory = memory_megabytes(workers.pids)
            return Round(
                bulk=bulk,
                memory_mb=memory[0],
                memory_all_mb=sum(memory),
                processes=len(memory),
                parts=throughput.parts,
                **figures,
            )
        except Exception as error:
            error.add_note(f"{system.name} said last:\n{log.read_text(errors='replace')[-3000:]}")
            raise


def _drained(stage: Stage, workers: Workers, before: int, began: float) -> dict[str, float]:
    first, first_at = until(stage.counter, before + 1, workers, every=0.02)
    last, last_at = until(stage.counter, before + stage.jobs, workers)
    time.sleep(_SETTLE)
    # Where the first look found all of them, the rate is at least this.
    rate = (last - first) / (last_at - first_at) if last > first else stage.jobs / (first_at - began)
    return {"drained": rate, "cold_start_s": first_at - began}


def end_to_end(stage: Stage, workers: Workers) -> Throughput:
    """Ask for all jobs at once while the workers run, and wait until the end of each is kept."""
    parts = workers.by_part
    groups = parts | {"broker": stage.servers.broker_pids, "database": stage.servers.database_pids}
    before, used, began = stage.counter.finished(), processor_times(groups), time.perf_counter()
    requested = stage.driver.request(stage.jobs, stage.plan.payload)
    stage.counter.expect(stage.jobs)
    _, done_at = until(stage.counter, before + stage.jobs, workers, every=0.02)
    spent = {name: after - used[name] for name, after in processor_times(groups).items()}
    spent["asker"] = requested.cpu
    each = {name: seconds / stage.jobs * 1000 for name, seconds in spent.items()}
    return Throughput(
        requested=stage.jobs / requested.seconds,
        rate=stage.jobs / (done_at - began),
        broker=each.pop("broker"),
        database=each.pop("database"),
        parts=each,
    )


def _latencies(stage: Stage, rate: float) -> dict[str, float]:
    idle = stage.driver.latency(stage.plan.samples)
    loaded = stage.driver.latency(stage.plan.loaded_samples, rate / 2)
    return {
        f"{when}_{what}_p{percent}": percentile(values, percent)
        for when, found in (("idle", idle), ("loaded", loaded))
        for what, values in (("start", found.started), ("result", found.seen))
        for percent in (50, 99)
    }


def introduce(system: System, place: Place, counter: Counter, log: Path, plan: Plan) -> None:
    """Tables, queues and job types come to be, as they do once in a system's life; then nothing runs."""
    system.prepare(place)
    workers = Workers.start(system.workers(place, plan.workers_of(system.name)), place, log)
    try:
        time.sleep(_SETTLE)
        with Driver.made(system.driver, place, log) as driver:
            deadline = time.perf_counter() + _STANDSTILL
            while counter.finished() < 1:
                if time.perf_counter() > deadline:
                    raise RuntimeError(f"expected a first job done within {_STANDSTILL:.0f} s, got none")
                driver.request(
                    1, plan.payload
                )  # more than once where the first came before its job type was known
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
