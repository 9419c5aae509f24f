"""Procrastinate: jobs in PostgreSQL, announced by LISTEN and NOTIFY."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import Command, python_driver

if TYPE_CHECKING:
    from procrastinate.types import JSONDict

_AT_ONCE = 500
_LOOK = 0.001  # seconds between looks for the end


class Procrastinate:
    """It needs no broker."""

    name = "procrastinate"
    settings = "2 workers of 50 concurrent jobs, LISTEN/NOTIFY, batch_defer of 500, finished jobs kept"
    driver = python_driver("procrastinate")
    finished: str | None = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"

    def prepare(self, place: Place) -> None:
        from procrastinate import App, PsycopgConnector  # noqa: PLC0415 - only where it is measured

        async def make() -> None:
            async with App(connector=PsycopgConnector(conninfo=place.database_url)).open_async() as app:
                await app.schema_manager.apply_schema_async()

        asyncio.run(make())

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        one = (
            "-m",
            "procrastinate",
            "--app",
            "tools.benchmarks.apps.procrastinate_app.app",
            "worker",
            "-c",
            "50",
        )
        return [Command(one) for _ in range(count)]

    @asynccontextmanager
    async def requester(self, place: Place) -> AsyncGenerator["_Requester"]:
        from tools.benchmarks.apps.procrastinate_app import app  # noqa: PLC0415

        async with app.open_async():
            yield _Requester()


class _Requester:
    async def request(self, count: int, payload: str) -> None:
        from tools.benchmarks.apps.procrastinate_app import noop  # noqa: PLC0415

        for first in range(0, count, _AT_ONCE):
            await noop.batch_defer_async(*(_arguments(payload) for _ in range(min(_AT_ONCE, count - first))))

    async def request_and_wait(self) -> None:
        from procrastinate.jobs import Status  # noqa: PLC0415
        from tools.benchmarks.apps.procrastinate_app import app, stamped  # noqa: PLC0415

        job_id = await stamped.defer_async()
        while await app.job_manager.get_job_status_async(job_id) is not Status.SUCCEEDED:  # noqa: ASYNC110 - see below
            await asyncio.sleep(_LOOK)  # it tells nobody: there is no event to wait for


def _arguments(payload: str) -> "JSONDict":
    return {"payload": payload}
