"""Ours and one other in short turns, A B A B: both are up at once, and the ratio is taken within each pair of
turns. A shared machine changes its speed within minutes; two turns that follow each other see the same one.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tools.benchmarks.driver_client import Driver
from tools.benchmarks.figures import Estimate, estimate_median, percentile
from tools.benchmarks.one_round import Stage, end_to_end, introduce, until
from tools.benchmarks.place import Place
from tools.benchmarks.plan import Plan
from tools.benchmarks.processes import Workers
from tools.benchmarks.ratios import PAIRINGS, Pairing
from tools.benchmarks.shared_servers import Counter, SharedServers
from tools.benchmarks.systems.catalogue import BULK, FLOOR
from tools.benchmarks.systems.port import System
from tools.benchmarks.systems.river_system import RiverMissing
from tools.benchmarks.turns import measure_floor, print_progress

_CALIBRATION = 300  # jobs of the first turn, by which the others are sized
_FEWEST = 100

Figures = Mapping[str, float]
Turns = dict[str, list[tuple[Figures, Figures]]]
"""Pairing → the figures of both sides, pair by pair."""


class Side(Protocol):
    """One of the two that have turns."""

    def turn(self) -> Figures:
        """Its figures of one turn."""
        ...


@dataclass(slots=True)
class Loaded:
    """A system that is up: all jobs of a turn are requested at once, then some one after another."""

    stage: Stage
    workers: Workers
    samples: (
        int  # jobs whose start latency is measured while nothing else runs; none where nobody compares it
    )

    def turn(self) -> Figures:
        figures = end_to_end(self.stage, self.workers).figures()
        if not self.samples:
            return figures
        idle = self.stage.driver.latency(self.samples)
        return figures | {"idle_start_p50": percentile(idle.started, 50)}


@dataclass(slots=True)
class Bulk:
    """Requests alone, which nobody takes."""

    driver: Driver
    jobs: int
    payload: int

    def turn(self) -> Figures:
        return {"bulk": self.jobs / self.driver.request(self.jobs, self.payload).seconds}


@dataclass(slots=True)
class Floor:
    """The client of the bus alone through one quorum queue (floor.py)."""

    servers: SharedServers
    messages: int

    def turn(self) -> Figures:
        return measure_floor(self.servers, self.messages)


def measure_pairs(
    names: Sequence[str],
    systems: Mapping[str, System],
    plan: Plan,
    servers: SharedServers,
    keep: Callable[[Turns], None],
) -> Turns:
    """The turns of each pairing both of whose sides are among `names`. A pairing that fails is reported and
    left out; `keep` is handed what there is after each one."""
    found: Turns = {}
    for pairing in PAIRINGS:
        if not {pairing.ours.partition(":")[0], pairing.other} <= set(names):
            continue
        print_progress(f"pairs: {pairing.ours} and {pairing.other}, {plan.pairs} of each")
        try:
            found[pairing.name] = _take_pairs(pairing, systems, plan, servers)
        except RiverMissing as missing:
            print_progress(f"  left out: {missing}")
            continue
        except Exception as error:  # noqa: BLE001 - the others have their turns all the same
            print_progress("\n".join([f"  failed: {error!r}", *getattr(error, "__notes__", ())]))
            continue
        for name, ratio in pair_ratios({pairing.name: found[pairing.name]}).items():
            print_progress(f"  {name} {ratio.median:.3g} ({ratio.low:.3g} to {ratio.high:.3g})")
        keep(found)
    return found


def pair_ratios(turns: Mapping[str, Sequence[tuple[Figures, Figures]]]) -> dict[str, Estimate]:
    """Each ratio that these pairs give: the median over the pairs, with its interval."""
    found: dict[str, Estimate] = {}
    for pairing in PAIRINGS:
        pairs = turns.get(pairing.name)
        if not pairs:
            continue
        for name, (above, below) in pairing.ratios.items():
            found[name] = estimate_median([ours[above] / other[below] for ours, other in pairs])
    return found


def _take_pairs(
    pairing: Pairing, systems: Mapping[str, System], plan: Plan, servers: SharedServers
) -> list[tuple[Figures, Figures]]:
    with ExitStack() as stack:
        samples = plan.pair_samples if pairing.latency else 0
        ours = _side(pairing.ours, systems, plan, servers, stack, samples)
        other = _side(pairing.other, systems, plan, servers, stack, samples)
        return [(ours.turn(), other.turn()) for _ in range(plan.pairs)]


def _side(  # noqa: PLR0917 - all that a side is made of
    name: str,
    systems: Mapping[str, System],
    plan: Plan,
    servers: SharedServers,
    stack: ExitStack,
    samples: int,
) -> Side:
    if name == FLOOR:
        return Floor(servers, plan.jobs)
    place = stack.enter_context(servers.place())
    system = systems[name.partition(":")[0]]
    log = Path(place.folder) / f"pairs-{system.name}.log"
    try:
        return _system(system, place, log, plan, servers, stack, samples, bulk=name == BULK)
    except Exception as error:
        if log.exists():
            error.add_note(f"{system.name} said last:\n{log.read_text(errors='replace')[-3000:]}")
        raise


def _system(  # noqa: PLR0917 - as above
    system: System,
    place: Place,
    log: Path,
    plan: Plan,
    servers: SharedServers,
    stack: ExitStack,
    samples: int,
    *,
    bulk: bool,
) -> Side:
    counter = Counter(system, place, servers)
    stack.callback(counter.close)
    introduce(system, place, counter, log, plan)
    driver = stack.enter_context(Driver.made(system.driver, place, log))
    if bulk:
        return Bulk(driver, plan.jobs, plan.payload)
    workers = Workers.start(system.workers(place, plan.workers_of(system.name)), place, log)
    stack.callback(workers.stop)
    stage = Stage(system, place, servers, plan, counter, driver, log)
    return Loaded(_sized(stage, workers), workers, samples)


def _sized(stage: Stage, workers: Workers) -> Stage:
    """The stage with as many jobs a turn as take about `turn_seconds`: found with warm workers."""
    before = stage.counter.finished()
    stage.driver.request(_CALIBRATION, stage.plan.payload)
    stage.counter.expect(_CALIBRATION)
    until(stage.counter, before + _CALIBRATION, workers)  # connected, prepared and warm
    jobs, began = _CALIBRATION, time.perf_counter()
    while (rate := end_to_end(_with_jobs(stage, jobs), workers).rate) * stage.plan.turn_seconds > 2 * jobs:
        jobs *= 2  # so few jobs are over before the rate is reached
        if time.perf_counter() - began > 4 * stage.plan.turn_seconds:
            break
    return _with_jobs(stage, max(_FEWEST, int(rate * stage.plan.turn_seconds)))


def _with_jobs(stage: Stage, jobs: int) -> Stage:
    plan = replace(stage.plan, jobs=jobs, middling_jobs=jobs, slow_jobs=jobs)
    return replace(stage, plan=plan)
