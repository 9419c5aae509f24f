"""The system under test: private servers, the services as processes, and proxies between them."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit, urlunsplit

import psutil
from tests.acceptance.warren import ServiceProcess, Warren
from tests.faults.postgres_proxy import PostgresProxy
from tests.faults.tcp_proxy import TcpProxy
from tests.servers.kinds import PostgresServer, RabbitMQServer
from tools.chaos.cluster import Standbys
from tools.chaos.effects import FOLDER, stamp
from tools.chaos.history import Destroyed, Freeze, Unmended
from tools.chaos.journal import Journal

from warrener_devservers import ServerError

Role = Literal["scheduler", "agent", "supervisor"]
ROLES: tuple[Role, ...] = get_args(Role)
REPLICAS: dict[Role, int] = {"scheduler": 2, "agent": 3, "supervisor": 2}
HANDLERS = "tools.chaos.workflow_handlers"
OLDER_HANDLERS = "tools.chaos.older_handlers"
PREVIOUS = os.environ.get("WARRENER_TEST_PREVIOUS") or None
"""The Python of an environment with the previous release, as infra/setup/previous-release prints it."""
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
"""Debian's libfaketime; without it the faults of clocks are left out."""

QUEUES = ("alpha", "beta", "gamma", "delta", "poison")
"""The queues of the handlers."""

_LOOK = 0.2  # seconds between two looks at whether a service has ended
Note = Callable[[str, str], None]


@dataclass
class Member:
    """One replica of a service, with its own way to the broker and to the database."""

    role: Role
    number: int
    broker: TcpProxy
    database: PostgresProxy
    clock: Path | None = None
    """The file from which libfaketime reads the offset of its clock; None: its clock is the host's."""
    service: ServiceProcess | None = None
    ended_on_purpose: bool = True
    frozen: set[int] = field(default_factory=set[int])

    @property
    def name(self) -> str:
        """Such as scheduler-1."""
        return f"{self.role}-{self.number}"

    @property
    def alive(self) -> bool:
        """True if its process runs."""
        return self.service is not None and self.service.process.poll() is None

    def set_clock(self, offset: float) -> None:
        """Step its clock to `offset` seconds off the host's, within a second."""
        assert self.clock is not None
        partial = self.clock.with_suffix(".new")
        partial.write_text(f"{offset:+.1f}s\n")
        partial.replace(self.clock)


@dataclass
class System:
    """The servers and the services; the faults act on it."""

    folder: Path
    rabbitmq: RabbitMQServer
    postgres: PostgresServer
    database: str
    warren: Warren
    note: Note
    journal: Journal
    members: list[Member] = field(default_factory=list[Member])
    freezes: list[Freeze] = field(default_factory=list[Freeze])
    unmended: list[Unmended] = field(default_factory=list[Unmended])
    destroyed: list[Destroyed] = field(default_factory=list[Destroyed])
    queues: tuple[str, ...] = QUEUES
    standbys: Standbys | None = None
    slots: int = 20
    replicas: dict[Role, int] = field(default_factory=REPLICAS.copy)
    shutdown_timeout: float = 8.0

    @property
    def store_url(self) -> str:
        """The database, directly."""
        return self.postgres.url_of(self.database)

    def url_of(self, user: str) -> str:
        """The broker, directly, as one of the users in `pieces`."""
        return self.rabbitmq.url.replace("guest:guest", f"{user}:{user}")

    def record_unmended(self, unmended: Unmended) -> None:
        """Keep for the checker what the product did not bring back."""
        self.journal.write(unmended)
        self.unmended.append(unmended)

    def record_destroyed(self, begun: float, ended: float) -> None:
        """Keep for the checker when confirmed requests were destroyed."""
        self.destroyed.append(Destroyed(begun, ended))
        self.journal.write(self.destroyed[-1])

    def of(self, role: Role) -> list[Member]:
        """The replicas of a service."""
        return [member for member in self.members if member.role == role]

    def any_of(self, role: Role, dice: random.Random) -> Member:
        """One replica."""
        return dice.choice(self.of(role))

    def with_clock(self, dice: random.Random) -> Member:
        """One replica whose clock can be set."""
        return dice.choice([member for member in self.members if member.clock is not None])

    async def start(self) -> None:
        """Start every replica; returns when all are ready."""
        for role in ROLES:
            for number in range(self.replicas[role]):
                broker, database = TcpProxy(self.rabbitmq.port), PostgresProxy(self.postgres.port)
                await broker.start()
                member = Member(role, number, broker, database)
                if FAKETIME and number == self.replicas[role] - 1:
                    member.clock = self.folder / f"{member.name}.clock"
                    member.set_clock(0)
                self.members.append(member)
                self.launch(member)
        await self.until_ready()

    def launch(self, member: Member) -> None:
        """Start its process; returns at once."""
        environment = {
            "WARRENER_BROKER_URL": _by_port(self.url_of(member.role), member.broker.port),
            "WARRENER_STORE_URL": _by_port(self.store_url, member.database.port),
            "WARRENER_LEDGER_URL": _by_port(self.store_url, member.database.port),
            "WARRENER_AGENT_FOLDER": str(self.folder / member.name),
            "WARRENER_SHUTDOWN_TIMEOUT": str(self.shutdown_timeout),
            FOLDER: str(self.folder / "effects"),
        }
        if member.clock is not None:
            environment |= {
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME_TIMESTAMP_FILE": str(member.clock),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        arguments = (HANDLERS, "--slots", str(self.slots)) if member.role == "agent" else ()
        member.service = self.warren.start(member.role, *arguments, **environment)
        member.ended_on_purpose = False

    async def run_older_agent(self, seconds: float) -> str:
        """Run one more agent for so long, of the previous release if its wheels are built; what it did.

        It knows fewer job types than the others of its queue.
        """
        environment = {
            "WARRENER_AGENT_FOLDER": str(self.folder / "older"),
            "WARRENER_SHUTDOWN_TIMEOUT": str(self.shutdown_timeout),
            FOLDER: str(self.folder / "effects"),
        }
        service = self.warren.start("agent", OLDER_HANDLERS, "--slots", "10", python=PREVIOUS, **environment)
        try:
            await asyncio.sleep(seconds)
            if service.process.poll() is not None:
                raise ServerError(f"expected the older agent to run, got {service.log_text()[-300:]}")
        finally:
            await asyncio.to_thread(service.end)
        files = (self.folder / "effects").glob(f"{service.process.pid}-*.jsonl")
        started = sum(file.read_text().count('"start"') for file in files)
        return f"{'the previous release' if PREVIOUS else 'this release'}, {started} handlers started"

    def kill(self, member: Member) -> None:
        """kill -9."""
        member.ended_on_purpose = True
        if member.service is not None and member.alive:
            member.service.kill()

    async def terminate(self, member: Member) -> int:
        """SIGTERM; returns its exit code when it has ended."""
        member.ended_on_purpose = True
        assert member.service is not None
        code = await asyncio.to_thread(member.service.end)
        self.note("ended", f"{member.name} ended with {code} after SIGTERM")
        return code

    async def freeze(self, members: list[Member], seconds: float) -> None:
        """SIGSTOP for so long to all processes of the members, then SIGCONT."""
        pids = [pid for member in members for pid in _tree(member)]
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        begun = stamp()
        try:
            await asyncio.sleep(seconds)
        finally:
            freeze = Freeze(frozenset(pids), begun, stamp())
            self.journal.write(freeze)
            self.freezes.append(freeze)
            for pid in reversed(pids):
                _signal(pid, signal.SIGCONT)

    async def keep_alive(self) -> None:
        """Start again what ends by itself, as a process manager would; until cancelled."""
        while True:
            for member in self.members:
                if not member.ended_on_purpose and not member.alive and member.service is not None:
                    code = member.service.process.returncode
                    self.note("ended by itself", f"{member.name} ended with {code}")
                    with suppress(ServerError):  # no free port just now
                        self.launch(member)
            await asyncio.sleep(_LOOK)

    async def until_ready(self, within: float = 90.0) -> bool:
        """Wait until every service says that it is ready; False if one does not in time."""
        deadline = stamp() + within
        while stamp() < deadline:
            states = await asyncio.gather(*(asyncio.to_thread(_ready, member) for member in self.members))
            if all(states):
                return True
            await asyncio.sleep(_LOOK)
        return False

    async def stop(self) -> None:
        """End everything."""
        for member in self.members:
            member.ended_on_purpose = True
            for pid in _tree(member):
                _signal(pid, signal.SIGCONT)
        living = [member for member in self.members if member.alive and member.service is not None]
        await asyncio.gather(*(asyncio.to_thread(_end, member) for member in living))
        for member in self.members:
            await member.broker.stop()
            member.database.close()


@asynccontextmanager
async def running_servers(rabbitmq: RabbitMQServer, postgres: PostgresServer) -> AsyncGenerator[None]:
    """Both servers started; nothing of them stays behind."""
    try:
        await asyncio.gather(asyncio.to_thread(rabbitmq.start), asyncio.to_thread(postgres.start))
        yield
    finally:
        await asyncio.gather(asyncio.to_thread(rabbitmq.remove), asyncio.to_thread(postgres.remove))


def forget(folder: Path) -> None:
    """Remove what a run has left."""
    shutil.rmtree(folder, ignore_errors=True)


def _end(member: Member) -> None:
    assert member.service is not None
    member.service.end()


def _ready(member: Member) -> bool:
    if member.service is None or not member.alive:
        return False
    try:
        return member.service.ready()
    except AssertionError:  # it has ended meanwhile; it is started again
        return False


def _tree(member: Member) -> list[int]:
    """Its process and all that descend from it."""
    if member.service is None or not member.alive:
        return []
    try:
        process = psutil.Process(member.service.process.pid)
        return [process.pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _by_port(url: str, port: int) -> str:
    """The same URL, by way of a proxy."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}"))
