"""taskiq over aio-pika, results in PostgreSQL."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import Command, python_driver

_OUTSTANDING = 200
_LOOK = 0.001  # seconds between looks for a result


class Taskiq:
    """Coroutine jobs, acknowledged when their result is saved."""

    name = "taskiq"
    settings = (
        "quorum queue, confirms (200 outstanding), 2 worker processes, qos 200, ack when_saved, "
        "results by asyncpg in PostgreSQL"
    )
    driver = python_driver("taskiq")
    finished: str | None = "SELECT count(*) FROM taskiq_results"

    def prepare(self, place: Place) -> None:
        """The worker makes queue and table."""

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        return [
            Command(
                (
                    *("-m", "taskiq", "worker", "tools.benchmarks.apps.taskiq_app:broker"),
                    *("--workers", str(count), "--ack-type", "when_saved", "--max-async-tasks", "200"),
                    *("--log-level", "WARNING"),
                )
            )
        ]

    @asynccontextmanager
    async def requester(self, place: Place) -> AsyncGenerator["_Requester"]:
        from tools.benchmarks.apps.taskiq_app import broker  # noqa: PLC0415 - only where it is measured

        await broker.startup()
        try:
            yield _Requester()
        finally:
            await broker.shutdown()


class _Requester:
    async def request(self, count: int, payload: str) -> None:
        from tools.benchmarks.apps.taskiq_app import noop  # noqa: PLC0415

        left = iter(range(count))

        async def one_after_another() -> None:
            for _ in left:
                await noop.kiq(payload)

        await asyncio.gather(*(one_after_another() for _ in range(_OUTSTANDING)))

    async def request_and_wait(self) -> None:
        from tools.benchmarks.apps.taskiq_app import stamped  # noqa: PLC0415

        await (await stamped.kiq()).wait_result(check_interval=_LOOK, timeout=60)
