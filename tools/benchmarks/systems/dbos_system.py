"""DBOS queues: workflows in PostgreSQL, found by polling."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import Command, python_driver

if TYPE_CHECKING:
    from dbos import DBOSClient, EnqueueOptions

_OUTSTANDING = 8
_LOOK = 0.001  # seconds between looks for the end


class Dbos:
    """It needs no broker."""

    name = "dbos"
    settings = "2 executors, a queue without limits polled every 50 ms, DBOSClient.enqueue on 8 threads"
    driver = python_driver("dbos")
    finished: str | None = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"

    def prepare(self, place: Place) -> None:
        """The first executor makes the tables."""

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        return [
            Command(("-m", "tools.benchmarks.apps.dbos_app"), {"DBOS__VMID": f"executor-{number}"})
            for number in range(count)
        ]

    @asynccontextmanager
    async def requester(self, place: Place) -> AsyncGenerator["_Requester"]:
        from dbos import DBOSClient  # noqa: PLC0415 - only where it is measured

        client = DBOSClient(system_database_url=place.database_url)
        try:
            yield _Requester(client)
        finally:
            client.destroy()


class _Requester:
    def __init__(self, client: "DBOSClient") -> None:
        self._client = client

    async def request(self, count: int, payload: str) -> None:
        left = iter(range(count))

        def one_after_another() -> None:
            for _ in left:
                self._client.enqueue(_options("noop"), payload)

        await asyncio.gather(*(asyncio.to_thread(one_after_another) for _ in range(_OUTSTANDING)))

    async def request_and_wait(self) -> None:
        def one() -> None:
            self._client.enqueue(_options("stamped")).get_result(polling_interval_sec=_LOOK)

        await asyncio.to_thread(one)


def _options(name: str) -> "EnqueueOptions":
    from tools.benchmarks.apps.dbos_app import QUEUE, VERSION  # noqa: PLC0415

    return {"queue_name": QUEUE, "workflow_name": name, "app_version": VERSION}
