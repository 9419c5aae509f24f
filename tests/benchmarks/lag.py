"""How late a schedule of one tick a second is: ours, Celery beat's and APScheduler's, in turns."""

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from tests.benchmarks.figures import percentile
from tests.benchmarks.grounds import Grounds
from tests.benchmarks.place import Place
from tests.benchmarks.processes import Workers, cpu_seconds
from tests.benchmarks.systems.clocks import CLOCKS, TickingSystem
from tests.benchmarks.turns import say

Lags = dict[str, dict[str, float]]
_TURNS = 3
_PATIENCE = 60.0  # seconds until the first tick
_WARM = 3  # ticks that are not counted
_SECOND = 1_000_000_000

HOW = """\
- *lag*: one schedule that ticks each second, nothing else running; from the nominal time of a tick to the
  first line of its handler. Ours and APScheduler's ticks are due on whole seconds. Celery beat promises no
  phase: its ticks are due each second from its first counted one on; what that one was late is not counted.
- *interval*: how far the time between two starts is from one second, whatever the phase.
"""


def measure_lags(grounds: Grounds, seconds: float) -> Lags:
    """Percentiles in milliseconds over all turns, by system; what failed is told and left out."""
    found: dict[str, list[list[float]]] = {system.name: [] for system in CLOCKS}
    starts: dict[str, list[list[int]]] = {system.name: [] for system in CLOCKS}
    spent = dict.fromkeys(found, 0.0)
    for number in range(_TURNS):
        for system in CLOCKS:
            say(f"schedule lag, turn {number + 1} of {_TURNS}: {system.name}")
            try:
                told, cpu = _one_turn(system, grounds, seconds / _TURNS)
            except Exception as error:  # noqa: BLE001 - the others have their turn all the same
                say("\n".join([f"{system.name} failed: {error!r}", *getattr(error, "__notes__", ())]))
                continue
            starts[system.name].append(told)
            found[system.name].append(lags(told, anchored=system.anchored))
            spent[system.name] += cpu
    return {
        name: summary(found[name], starts[name], spent[name], seconds) for name in found if any(found[name])
    }


def lags(started: Sequence[int], *, anchored: bool) -> list[float]:
    """Milliseconds from the nominal time to the start of each tick, given in nanoseconds. Pure."""
    first = started[0]
    if anchored:
        return [(moment % _SECOND) / 1e6 for moment in started]
    return [(moment - first - number * _SECOND) / 1e6 for number, moment in enumerate(started)]


def summary(
    found: Sequence[Sequence[float]], starts: Sequence[Sequence[int]], spent: float, seconds: float
) -> dict[str, float]:
    """The figures of one system."""
    late = [lag for turn in found for lag in turn]
    steps = [(after - before) / 1e6 - 1000 for turn in starts for before, after in pairwise(turn)]
    off = [abs(step) for step in steps]
    return {
        "lag_p50_ms": percentile(late, 50),
        "lag_p99_ms": percentile(late, 99),
        "lag_worst_ms": max(late),
        "interval_p99_ms": percentile(off, 99),
        "ticks": float(len(late)),
        "seconds": seconds,
        "cpu_ms_per_tick": spent / len(late) * 1000,
    }


def _one_turn(system: TickingSystem, grounds: Grounds, seconds: float) -> tuple[list[int], float]:
    with ExitStack() as stack:
        place = stack.enter_context(grounds.place())
        ear = stack.enter_context(_ear(place))
        log = Path(place.folder) / f"{system.name}-lag.log"
        system.prepare(place)
        workers = Workers.start(system.processes(place), place, log)
        stack.callback(workers.stop)
        try:
            _until_ticking(system, place, ear)
            groups = [*workers.pids, *grounds.broker_pids, *grounds.database_pids]
            used = cpu_seconds(groups)
            told = [int(ear.recv(64)) for _ in range(max(2, round(seconds)))]
            return told, cpu_seconds(groups) - used
        except Exception as error:
            error.add_note(f"{system.name} said last:\n{log.read_text(errors='replace')[-3000:]}")
            raise


def _until_ticking(system: TickingSystem, place: Place, ear: socket.socket) -> None:
    """Asked for again where the schedule came before its job type was known."""
    deadline = time.monotonic() + _PATIENCE
    system.put(place)
    heard = 0
    while heard < _WARM:
        try:
            ear.recv(64)
            heard += 1
        except TimeoutError:
            if time.monotonic() > deadline:
                raise


def _ear(place: Place) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", place.stamp_port))
    made.settimeout(10)
    return made
