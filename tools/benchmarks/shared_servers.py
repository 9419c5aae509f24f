"""The broker and the database that all systems share in one run: durable, and private to it."""

import asyncio
import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import asyncpg
import psutil
from tests.servers.postgres import PrivatePostgres
from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import System

from warrener_devservers import PrivateRabbitMQ
from warrener_devservers.process import free_block


class SharedServers:
    """One RabbitMQ node and one PostgreSQL with fsync."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._node = PrivateRabbitMQ(folder / "rabbitmq")
        self._database = PrivatePostgres(
            folder / "postgres", durable=True, settings={"shared_buffers": "1GB"}
        )
        self._numbers = itertools.count()
        self.broker_pids: list[int] = []
        self.database_pids: list[int] = []

    @classmethod
    @contextmanager
    def made(cls) -> Generator[Self]:
        """Started, and gone at the end."""
        with TemporaryDirectory(prefix="warrener-bench-") as name:
            folder = Path(name)
            folder.chmod(0o711)  # PostgreSQL's account goes through it
            servers = cls(folder)
            try:
                servers.broker_pids = _started_by(servers._node.start)
                servers.database_pids = _started_by(servers._database.start)
                yield servers
            finally:
                servers._node.kill()
                servers._database.kill()

    def versions(self) -> str:
        """Of both servers."""
        return f"RabbitMQ {self._node.version()}, PostgreSQL {self._database.execute('SHOW server_version')}"

    @contextmanager
    def place(self) -> Generator[Place]:
        """A fresh virtual host and a fresh database, gone afterwards."""
        name = f"bench{next(self._numbers)}"
        place = Place(
            broker_url=self._node.add_vhost(name),
            database_url=self._database.add_database(name),
            stamp_port=free_block((0,)),
            folder=str(self.folder),
        )
        try:
            yield place
        finally:
            self._node.drop_vhost(name)
            self._database.drop_database(name)
            self._database.execute("CHECKPOINT")  # the next one does not pay for what this one wrote

    def add_database(self, name: str) -> str:
        """The URL of a new database, which is there to the end."""
        return self._database.add_database(name)

    def in_broker(self, place: Place) -> int:
        """Messages in all queues of a place, those being worked on among them."""
        vhost = place.broker_url.rpartition("/")[2]
        counted = self._node.evaluate(
            f"lists:sum([M || [{{messages, M}}] <- "
            f'rabbit_amqqueue:info_all(<<"{vhost}">>, [messages]), is_integer(M)])'
        )
        return int(counted)


class Counter:
    """How many jobs of a system are finished in a place; asked over one connection."""

    def __init__(self, system: System, place: Place, servers: SharedServers) -> None:
        self._system, self._place, self._servers = system, place, servers
        self._expected = 0
        self._runner = asyncio.Runner()
        self._connection: asyncpg.Connection | None = None

    def expect(self, more: int) -> None:
        """So many were asked for; what only leaves the broker can be counted in no other way."""
        self._expected += more

    def finished(self) -> int:
        """By now."""
        if self._system.finished is None:
            return self._expected - self._servers.in_broker(self._place)
        return self._runner.run(self._query(self._system.finished))

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._runner.close()

    async def _query(self, statement: str) -> int:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._place.database_url)
        try:
            return int(await self._connection.fetchval(statement))
        except asyncpg.UndefinedTableError:
            return 0  # the system makes its tables when it needs them


def _started_by(start: Callable[[], None]) -> list[int]:
    before = {child.pid for child in psutil.Process().children()}
    start()
    return [child.pid for child in psutil.Process().children() if child.pid not in before]
