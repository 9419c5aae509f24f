"""How late a schedule of one tick a second is: ours, Celery beat's and APScheduler's, beside each other."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from tools.benchmarks.lag_figures import summary
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers, cpu_seconds
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.clocks import CLOCKS, TickingSystem
from tools.benchmarks.turns import print_progress

Lags = dict[str, dict[str, float]]
_PATIENCE = 60.0  # seconds until the first tick
_WARM = 3  # ticks that are not counted

HOW = """\
- *lag*: one schedule that ticks each second, nothing else running; from the nominal time of a tick to the
  first line of its handler. All systems tick during the same minutes of the same machine, each in a virtual
  host and a database of its own: three idle systems take some hundredths of a processor, and are due at
  different fractions of the second (ours 0, APScheduler ½, Celery where it happens to begin). Celery beat
  promises no phase, and its ticks drift: they are held against its own mean rhythm, on which the earliest of
  them counts as on time.
- *drift*: how far the last tick has moved from where the first one and whole seconds would have it.
- *interval*: how far the time between two starts is from one second, whatever the phase.
- *processor*: of the system's own processes; RabbitMQ and PostgreSQL serve all three.
"""


def measure_lags(servers: SharedServers, seconds: float) -> Lags:
    """Percentiles in milliseconds by system, of so many seconds; what failed is told and left out."""
    with ExitStack() as stack:
        started = [_started(system, servers, stack) for system in CLOCKS]
        running = [one for one in started if one is not None]
        print_progress(f"schedule lag: {', '.join(one.system.name for one in running)}, {seconds:.0f} s")
        with ThreadPoolExecutor(max(1, len(running))) as pool:
            found = list(pool.map(_Running.figures, running, repeat(seconds)))
    return {one.system.name: times for one, times in zip(running, found, strict=True) if times}


@dataclass(frozen=True, slots=True)
class _Running:
    """A system whose schedule ticks."""

    system: TickingSystem
    workers: Workers
    socket_of_stamps: socket.socket
    log: Path

    def figures(self, seconds: float) -> dict[str, float]:
        """Of so many ticks from now on; none if it failed."""
        try:
            self._forget()
            used = cpu_seconds(self.workers.pids)
            times = [int(self.socket_of_stamps.recv(64)) for _ in range(max(2, round(seconds)))]
            return summary(times, self.system.phase, cpu_seconds(self.workers.pids) - used)
        except Exception as error:  # noqa: BLE001 - the others go on all the same
            _print_failure(self.system, error, self.log)
            return {}

    def _forget(self) -> None:
        """What was heard while the others were started does not count."""
        patience = self.socket_of_stamps.gettimeout()
        self.socket_of_stamps.settimeout(0)
        with suppress(BlockingIOError):
            while True:
                self.socket_of_stamps.recv(64)
        self.socket_of_stamps.settimeout(patience)


def _started(system: TickingSystem, servers: SharedServers, stack: ExitStack) -> _Running | None:
    """Started and ticking; None if it failed, and then nothing of it runs any more."""
    with ExitStack() as own:
        place = own.enter_context(servers.place())
        log = Path(place.folder) / f"{system.name}-lag.log"
        try:
            socket_of_stamps = own.enter_context(_stamp_socket(place))
            system.prepare(place)
            workers = Workers.start(system.processes(place), place, log)
            own.callback(workers.stop)
            _until_ticking(system, place, socket_of_stamps)
        except Exception as error:  # noqa: BLE001
            _print_failure(system, error, log)
            return None
        stack.push(own.pop_all())
        return _Running(system, workers, socket_of_stamps, log)


def _print_failure(system: TickingSystem, error: Exception, log: Path) -> None:
    output = log.read_text(errors="replace")[-3000:] if log.exists() else ""
    print_progress(f"{system.name} failed: {error!r}\nit said last:\n{output}")


def _until_ticking(system: TickingSystem, place: Place, socket_of_stamps: socket.socket) -> None:
    """Asked for again where the schedule came before its job type was known."""
    deadline = time.monotonic() + _PATIENCE
    system.put(place)
    received = 0
    while received < _WARM:
        try:
            socket_of_stamps.recv(64)
            received += 1
        except TimeoutError:
            if time.monotonic() > deadline:
                raise


def _stamp_socket(place: Place) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", place.stamp_port))
    made.settimeout(10)
    return made
