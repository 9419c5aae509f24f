"""Dramatiq on RabbitMQ; it keeps no results there is a database for, so what left the queue is finished."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import Command, python_driver


class Dramatiq:
    """It knows no quorum queues."""

    name = "dramatiq"
    settings = (
        "durable classic queue, confirm_delivery, 2 processes of 8 threads, no results, send() one by one"
    )
    driver = python_driver("dramatiq")
    finished: str | None = None

    def prepare(self, place: Place) -> None:
        """The worker makes the queues."""

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        return [
            Command(
                ("-m", "dramatiq", "tools.benchmarks.apps.dramatiq_app", "--processes", str(count), "-t", "8")
            )
        ]

    @asynccontextmanager
    async def requester(self, place: Place) -> AsyncGenerator["_Requester"]:
        yield _Requester()


class _Requester:
    async def request(self, count: int, payload: str) -> None:
        from tools.benchmarks.apps.dramatiq_app import noop  # noqa: PLC0415 - only where it is measured

        def all_of_them() -> None:
            for _ in range(count):
                noop.send(payload)

        await asyncio.to_thread(all_of_them)

    async def request_and_wait(self) -> None:
        from tools.benchmarks.apps.dramatiq_app import stamped  # noqa: PLC0415

        await asyncio.to_thread(stamped.send)
