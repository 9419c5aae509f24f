"""Looking into the store of a warren.

Tests look again and again until a fact holds. To open a store takes 8 ms of a processor, a look into an open
one 0.3 ms: a SQLite store stays open until the test ends.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from types import TracebackType
from typing import Self, TypeVar
from uuid import UUID

from tests.acceptance.warren import Warren

from warrener_store import Store, open_store
from warrener_store.agents.rows import AgentRow
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter
from warrener_store.incidents.rows import IncidentFilter, IncidentRow
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import TickRow

T = TypeVar("T")
Question = Callable[[Store], Awaitable[T]]


class OpenStores:
    """Stores that stay open from one look to the next, each on one event loop. Threads may share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runner: asyncio.Runner | None = None
        self._stores: dict[str, Store] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._runner is not None:
                for store in self._stores.values():
                    self._runner.run(store.close())
                self._runner.close()
            self._runner = None
            self._stores.clear()

    def look(self, url: str, question: Question[T]) -> T:
        """Answer the question by the store at this URL."""
        with self._lock:
            self._runner = self._runner or asyncio.Runner(loop_factory=asyncio.new_event_loop)
            return self._runner.run(self._look(url, question))

    async def _look(self, url: str, question: Question[T]) -> T:
        if url not in self._stores:
            store = open_store(url)
            try:
                await store.start()
            except BaseException:
                await store.close()
                raise
            self._stores[url] = store
        return await question(self._stores[url])


OPEN_STORES = OpenStores()
"""Those of the running test, which closes them in the end."""


def look(warren: Warren, question: Question[T]) -> T:
    """Answer the question by the store of the warren."""
    if warren.store_url.startswith("sqlite:"):
        return OPEN_STORES.look(warren.store_url, question)
    return asyncio.run(_look_once(warren.store_url, question))  # the server may die between two looks


async def _look_once(url: str, question: Question[T]) -> T:
    store = open_store(url)
    await store.start()
    try:
        return await question(store)
    finally:
        await store.close()


def find_job(warren: Warren, job_id: UUID) -> tuple[JobRow, Sequence[ParkedMessage]]:
    """The job as it stands, and all that is parked."""

    async def found(store: Store) -> tuple[JobRow, Sequence[ParkedMessage]]:
        return (await store.jobs_by_id([job_id]))[job_id], await store.parked()

    return look(warren, found)


def job_types_of(warren: Warren) -> Collection[str]:
    """The job types that agents have announced."""
    return set(look(warren, lambda store: store.job_types()))


def parked_in(warren: Warren) -> Sequence[ParkedMessage]:
    """All that is parked."""
    return look(warren, lambda store: store.parked())


def rows_of(warren: Warren, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
    """Those of these jobs that there are."""
    return look(warren, lambda store: store.jobs_by_id(job_ids))


def job_history(warren: Warren, job_id: UUID) -> tuple[JobRow, Sequence[AttemptRow], Sequence[ParkedMessage]]:
    """The job, its attempts that are over, and all that is parked."""

    async def history(store: Store) -> tuple[JobRow, Sequence[AttemptRow], Sequence[ParkedMessage]]:
        rows, attempts = await store.jobs_by_id([job_id]), await store.attempts_of([job_id])
        return rows[job_id], attempts, await store.parked()

    return look(warren, history)


def dead_letter_of(warren: Warren, job_id: UUID) -> DeadLetter:
    """The dead letter of this job."""

    async def found(store: Store) -> DeadLetter:
        (dead_letter,) = [
            each
            for each in await store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=()))
            if each.job_id == job_id
        ]
        return dead_letter

    return look(warren, found)


def agents_of(warren: Warren) -> Sequence[AgentRow]:
    """The agents that have been heard of."""
    return look(warren, lambda store: store.agents())


def incidents_of(warren: Warren, *, closed: bool = False) -> list[IncidentRow]:
    """The incidents that are open, or closed ones too."""
    return look(warren, lambda store: store.escalations.incidents(IncidentFilter(closed=closed)))


def tick_history(warren: Warren, schedule: str) -> list[TickRow]:
    """The ticks of a schedule, the first one first."""

    async def history(store: Store) -> list[TickRow]:
        return [*reversed(await store.ticks_of(schedule, 1000))]

    return look(warren, history)
