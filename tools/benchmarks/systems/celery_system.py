"""Celery on RabbitMQ, results in PostgreSQL."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import Command, python_driver

_LOOK = 0.001  # seconds between looks for a result; its default of 0.5 would measure itself


class Celery:
    """As "Optimizing" and "Using RabbitMQ" advise for jobs that must not be lost."""

    name = "celery"
    settings = (
        "quorum queue, acks_late, reject_on_worker_lost, confirm_publish, prefork of 2, prefetch 64 a "
        "process, results by SQLAlchemy in PostgreSQL, delay() one after another"
    )
    driver = python_driver("celery")
    finished: str | None = "SELECT count(*) FROM celery_taskmeta WHERE status = 'SUCCESS'"

    def prepare(self, place: Place) -> None:
        """The worker makes the queue, the first result the tables."""

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        return [
            Command(
                (
                    *("-m", "celery", "-A", "tools.benchmarks.apps.celery_app", "worker"),
                    *("-c", str(count), "--loglevel", "WARNING", "--without-gossip", "--without-mingle"),
                )
            )
        ]

    @asynccontextmanager
    async def requester(self, place: Place) -> AsyncGenerator["_Requester"]:
        yield _Requester()


class _Requester:
    async def request(self, count: int, payload: str) -> None:
        from tools.benchmarks.apps.celery_app import noop  # noqa: PLC0415 - only where it is measured

        def all_of_them() -> None:
            for _ in range(count):
                noop.delay(payload)

        await asyncio.to_thread(all_of_them)

    async def request_and_wait(self) -> None:
        from tools.benchmarks.apps.celery_app import stamped  # noqa: PLC0415

        def one() -> None:
            stamped.delay().get(timeout=60, interval=_LOOK)

        await asyncio.to_thread(one)
