"""One chaos run: start the system, publish, bring about one fault after the other, let it settle, judge."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from tests.acceptance.warren import ROOT, Warren
from tests.servers.choosing import chosen_servers
from tests.servers.kinds import PostgresServer, RabbitMQServer
from tools.chaos import clients, pieces
from tools.chaos.checker import Violation, check
from tools.chaos.cluster import BrokerCluster, Standbys
from tools.chaos.effects import stamp
from tools.chaos.evidence import Known, collect, counts
from tools.chaos.faults.registry import LONG, SHORT, Kind, Stage
from tools.chaos.history import FaultFact, History
from tools.chaos.journal import Journal
from tools.chaos.observer import Observer
from tools.chaos.plan import Planned, make_plan
from tools.chaos.system import System, running_servers
from tools.chaos.workload import Workload

from warrener_devservers import ServerError
from warrener_store import migrate

_TICK = 0.25  # seconds between two batches of requests
_MOST_OPEN = 1500  # jobs that are not over; beyond it the requester waits
_SLOWEST, _FASTEST = 4.0, 400.0  # requests a second
_FAULT_TAKES = 12.0  # seconds, until it is known how long they take here
_FAULTS_KNOWN = 3
_WARM_UP = 5.0
_RUNNING = 15
_SHORT_PAUSE = 0.3
_TRIES = 60
QUIET = 60.0
"""Seconds after the last fault within which every job must be over."""
FAULT_LIMIT = 300.0
"""Seconds after which a fault that does not end counts as one that could not be brought about."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for."""

    seed: int
    jobs: int
    faults: int
    kinds: tuple[str, ...]
    folder: Path
    short: bool = False
    busy: int = 0
    cluster: bool = False


@dataclass(slots=True)
class Outcome:
    """What came of it; plain data, so that a report can be made from it at any time."""

    options: Options
    commit: str = ""
    date: str = ""
    cores: int = 0
    began: float = 0.0
    ended: float = 0.0
    faults: list[FaultFact] = field(default_factory=list[FaultFact])
    notes: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    history: History = field(default_factory=History)
    violations: list[Violation] = field(default_factory=list[Violation])
    counts: dict[str, Any] = field(default_factory=dict[str, Any])
    interrupted: bool = False
    """True if Ctrl-C, or an error of the harness itself, ended the run before its time."""


Log = Callable[[str], None]
LEASH = (sys.executable, "-m", "warrener.up.die_with_parent", str(os.getpid()))
"""Every service dies with the harness, in whatever way that ends."""


class ChaosRun:
    """Drives one run."""

    def __init__(self, options: Options, kinds: Sequence[Kind], log: Log) -> None:
        self._options = options
        self._kinds = kinds
        self._log = log
        self.outcome = Outcome(options, _commit(), datetime.now(UTC).date().isoformat(), os.cpu_count() or 1)

    async def run(self) -> Outcome:
        """All of it. When cancelled it still collects and judges what there is."""
        options, servers = self._options, chosen_servers()
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / "effects").mkdir()
        self._journal = Journal(options.folder)
        _end_on_signals()
        postgres = servers.postgres(options.folder / "postgres")
        async with AsyncExitStack() as stack:
            self._log("starting RabbitMQ and PostgreSQL")
            rabbitmq: RabbitMQServer
            if options.cluster:
                rabbitmq = cluster = BrokerCluster(options.folder / "rabbitmq")
                await stack.enter_async_context(cluster.balanced())
            else:
                rabbitmq = servers.rabbitmq(options.folder / "rabbitmq")
            await stack.enter_async_context(running_servers(rabbitmq, postgres))
            url = await asyncio.to_thread(postgres.add_database, "chaos")
            await migrate(url)
            warren = Warren(options.folder, rabbitmq.url, url, url, launcher=LEASH)
            await pieces.add_users(rabbitmq)
            system = System(options.folder, rabbitmq, postgres, "chaos", warren, self._note, self._journal)
            system.shutdown_timeout = 3.0 if options.short else 8.0
            if options.cluster:
                system.standbys = await asyncio.to_thread(Standbys, options.folder, postgres)
                stack.callback(system.standbys.remove)
            stack.push_async_callback(system.stop)
            for _ in range(options.busy * (os.cpu_count() or 1)):
                stack.callback(_busy_loop().kill)
            await self._work(system, stack)
        return self.outcome

    async def _work(self, system: System, stack: AsyncExitStack) -> None:
        options, dice = self._options, random.Random(self._options.seed)
        observer = Observer(system)
        await observer.install()
        await system.start()
        await asyncio.to_thread(system.rabbitmq.settle)
        await clients.add_tap(system.rabbitmq)
        workload = Workload(
            system.url_of("client"), random.Random(dice.getrandbits(64)), observer.confirmed, self._journal
        )
        await workload.start()
        stack.push_async_callback(workload.close)
        background = [asyncio.create_task(system.keep_alive()), asyncio.create_task(observer.watch())]
        stack.callback(_cancel_all, background)
        self.outcome.began = stamp()
        began = TypeAdapter(Outcome).dump_python(self.outcome, mode="json")
        self._journal.note("began", {"outcome": began, "offset": observer.offset})
        plan = make_plan(self._kinds, options.seed, options.faults)
        self._log(
            f"seed {options.seed}: {options.jobs} jobs, {len(plan)} faults of {len(options.kinds)} kinds, "
            f"in {options.folder}"
        )
        settled = False
        try:
            publishing = asyncio.create_task(self._publish(workload, observer))
            stack.callback(_cancel_all, [publishing])
            await asyncio.sleep(_WARM_UP)
            for planned in plan:
                await self._bring_about(planned, stage_of(system, workload, options, planned), observer)
            await self._until_published(publishing, observer)
            await self._settle(system, workload, observer)
            settled = True
        except asyncio.CancelledError:
            self.outcome.interrupted = True
            self._log("interrupted: judging what there is")
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        except Exception as error:  # noqa: BLE001 - what there is must be judged in any case
            self.outcome.interrupted = True
            self._log(f"the harness failed: {type(error).__name__}: {error}")
        await self._judge(system, workload, observer, settled=settled)

    async def _publish(self, workload: Workload, observer: Observer) -> None:
        """Publish at least the jobs over the time of the faults; there is work until the last of them."""
        options, began, sent, credit = self._options, stamp(), 0, 0.0
        while sent < options.jobs or len(self.outcome.faults) < options.faults:
            await asyncio.sleep(_TICK)
            done = len(self.outcome.faults)
            each = _FAULT_TAKES if done < _FAULTS_KNOWN else (stamp() - began) / (done + 1)
            seconds = max(each * (options.faults - done), 1.0)
            credit += min(_FASTEST, max(_SLOWEST, (options.jobs - sent) / seconds)) * _TICK
            room = _MOST_OPEN - len(observer.open) - (workload.sent - len(observer.requests))
            count = max(0, min(int(credit), room))
            credit = min(credit - count, _FASTEST)
            if count:
                await workload.publish(count)
                sent += count

    async def _until_published(self, publishing: asyncio.Task[None], observer: Observer) -> None:
        """Wait for the rest of the jobs, while any end: the verdict names those that are stuck."""
        ended, progressed = observer.ended, stamp()
        while not publishing.done() and stamp() - progressed < QUIET:
            await asyncio.sleep(_TICK)
            if observer.ended > ended:
                ended, progressed = observer.ended, stamp()
        if publishing.done():
            publishing.result()
        else:
            publishing.cancel()
            self._log(f"the rest of the jobs is not requested: none ended in {QUIET:.0f} s")

    async def _bring_about(self, planned: Planned, stage: Stage, observer: Observer) -> None:
        await asyncio.sleep(planned.pause * (_SHORT_PAUSE if self._options.short else 1.0))
        in_flight, begun = len(observer.open), stamp()
        try:
            async with asyncio.timeout(FAULT_LIMIT):
                # Jobs that run for seconds: an agent that is killed or frozen has some in its hands.
                await stage.burst("chaos.exclusive", (0.5, 6.0), _RUNNING)
                await asyncio.sleep(_TICK)
                in_flight, begun = len(observer.open), stamp()
                detail = await planned.kind.bring_about(stage)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault that could not be brought about ends no run
            detail = f"could not be brought about: {type(error).__name__}: {error}"
        fact = FaultFact(planned.number, planned.kind.name, detail, begun, stamp(), in_flight)
        self.outcome.faults.append(fact)
        self._journal.write(fact)
        waited = 0.0
        while not planned.overlapping and waited < self._patience:
            await asyncio.sleep(_TICK)
            waited = stamp() - fact.ended
            if not observer.plain_open(before=fact.ended):
                break
        self._log(
            f"{planned.number:4}/{self._options.faults}  {fact.ended - fact.begun:5.1f} s  "
            f"{planned.kind.name}  {detail}  [{observer.ended} over, {len(observer.open)} open, "
            f"{'overlapping' if planned.overlapping else f'{waited:.1f} s to recover'}]"
        )

    @property
    def _patience(self) -> float:
        return 2.5 if self._options.short else 10.0

    async def _settle(self, system: System, workload: Workload, observer: Observer) -> None:
        """No more faults: every job must be over within QUIET, every requester answered."""
        began = stamp()
        self._log(f"no more faults: {len(observer.open)} jobs open, they have {QUIET:.0f} s")
        await observer.note_schedules()
        removing = asyncio.create_task(workload.end_schedules())
        answered = asyncio.create_task(workload.quiesce(QUIET))
        while still := await observer.open_in_store():
            if stamp() - began > QUIET:
                break
            await asyncio.sleep(_TICK)
        confirmed = await answered
        removing.cancel()  # or has long been done: a broker that is ill may never confirm it
        await asyncio.gather(removing, return_exceptions=True)
        while any((await asyncio.to_thread(_lengths, system)).values()):
            if stamp() - began > QUIET:
                break
            await asyncio.sleep(_TICK)
        self._log(
            f"quiet after {stamp() - began:.1f} s: {len(still)} jobs not over"
            + ("" if confirmed else ", some requesters have no answer")
        )

    async def _judge(self, system: System, workload: Workload, observer: Observer, *, settled: bool) -> None:
        self.outcome.ended = stamp()
        left = await asyncio.to_thread(_lengths, system) if settled else {}
        if not settled:
            await asyncio.to_thread(_bring_back, system.postgres)
        known = Known(
            observer.offset,
            self._options.folder / "effects",
            observer.requests,
            system.freezes,
            observer.schedules,
            workload.answers,
            system.unmended,
            system.destroyed,
            left,
            settled=settled,
        )
        self.outcome.history = await collect(system.store_url, known)
        self.outcome.counts = await counts(system.store_url)
        self.outcome.violations = check(self.outcome.history)

    def _note(self, what: str, detail: str) -> None:
        self.outcome.notes.append((stamp(), what, detail))
        self._journal.note("note", self.outcome.notes[-1])
        if what == "ended by itself":
            self._log(f"           {detail}, started again")


def stage_of(system: System, workload: Workload, options: Options, planned: Planned) -> Stage:
    """What a planned fault acts on."""
    return Stage(system, workload, random.Random(planned.seed), SHORT if options.short else LONG)


def _lengths(system: System) -> dict[str, int]:
    """Messages in each queue; a broker that does not say so counts as one queue that is not empty."""
    try:
        return clients.queue_lengths(system.rabbitmq)
    except ServerError as error:
        return {f"unknown: {error}": 1}


def _end_on_signals() -> None:
    """SIGINT and SIGTERM end the run in order, also where a shell has started it in the background, which has
    SIGINT ignored. A second one changes nothing: the report is being written."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    signals = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        for number in signals:
            loop.add_signal_handler(number, _ignored)
        task.cancel()

    for number in signals:
        loop.add_signal_handler(number, end)


def _busy_loop() -> subprocess.Popen[bytes]:
    return subprocess.Popen([*LEASH, sys.executable, "-c", "while True: pass"])


def _ignored() -> None:
    """A signal that came again."""


def _bring_back(server: PostgresServer) -> None:
    """Have the server answer, whichever fault was interrupted; one that restarts in a thread goes on."""
    server.resume()
    for _ in range(_TRIES):
        with suppress(ServerError):
            server.start()
            server.execute("SELECT 1")
            return
        time.sleep(1)


def _commit() -> str:
    words = ("git", "rev-parse", "--short=10", "HEAD")
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()


def _cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
