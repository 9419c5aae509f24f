"""Looking into the store of a warren.

Tests look again and again until a fact holds. To open a store takes 8 ms of a processor, a look into an open
one 0.3 ms: a SQLite store stays open until the test ends.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import closing
from typing import Any, Self, TypeVar
from uuid import UUID, uuid4

from tests.acceptance.warren import Warren
from tests.store_access import on_store

from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import Claim
from warrener_contracts.state_machine import JobState
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

    def __exit__(self, *_: object) -> None:
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
    return on_store(warren.store_url, question)  # the server may die between two looks


def find_job(warren: Warren, job_id: UUID) -> tuple[JobRow, Sequence[ParkedMessage]]:
    """The job as it stands, and all that is parked."""
    return rows_of(warren, [job_id])[job_id], parked_in(warren)


def job_types_of(warren: Warren) -> Collection[str]:
    """The job types that agents have announced."""
    return set(look(warren, lambda store: store.job_types()))


def parked_in(warren: Warren) -> Sequence[ParkedMessage]:
    """All that is parked."""
    return look(warren, lambda store: store.parked())


def state_of(warren: Warren, job_id: UUID) -> JobState | None:
    """The state of a job; None before it is accepted."""
    row = rows_of(warren, [job_id]).get(job_id)
    return None if row is None else row.state


def rows_of(warren: Warren, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
    """Those of these jobs that there are."""
    return look(warren, lambda store: store.jobs_by_id(job_ids))


def job_history(warren: Warren, job_id: UUID) -> tuple[JobRow, Sequence[AttemptRow], Sequence[ParkedMessage]]:
    """The job, its attempts that are over, and all that is parked."""
    row, parked = find_job(warren, job_id)
    return row, look(warren, lambda store: store.attempts_of([job_id])), parked


def dead_letter_of(warren: Warren, job_id: UUID) -> DeadLetter:
    """The dead letter of this job."""
    of_job = DeadLetterFilter(states=(), job_ids=(job_id,))
    (dead_letter,) = look(warren, lambda store: store.dead_letter_store.list_dead_letters(of_job))
    return dead_letter


def agents_of(warren: Warren) -> Sequence[AgentRow]:
    """The agents that have been heard of."""
    return look(warren, lambda store: store.agents())


def incidents_of(warren: Warren, *, closed: bool = False) -> list[IncidentRow]:
    """The incidents that are open, or closed ones too."""
    return look(warren, lambda store: store.escalations.incidents(IncidentFilter(closed=closed)))


def tick_history(warren: Warren, schedule: str) -> list[TickRow]:
    """The ticks of a schedule, the first one first."""
    return look(warren, lambda store: store.ticks_of(schedule, 1000))[::-1]


async def effects_in(ledger_url: str) -> list[Any]:
    """Read the table `effects`, to which handlers write in the transactions of their ledger."""
    async with (
        connected_ledger(ledger_url) as ledger,
        ledger.transaction(Claim(uuid4(), 1), agent_id="reader") as transaction,
    ):
        return [row["note"] for row in await transaction.execute("SELECT note FROM effects")]


def run_sql(warren: Warren, statement: str, *parameters: object, file: str = "state.db") -> list[Any]:
    """Carry out a statement in a SQLite database of the warren; its rows."""
    with closing(sqlite3.connect(warren.folder / file, timeout=30)) as database, database:
        return database.execute(statement, parameters).fetchall()


def make_effects(warren: Warren) -> None:
    """Make the table `effects` beside the ledger, where the handlers' transactions are."""
    run_sql(warren, "CREATE TABLE effects (note TEXT)", file="ledger.db")


def effects(warren: Warren) -> list[str]:
    """What handlers have written to that table."""
    return [note for (note,) in run_sql(warren, "SELECT note FROM effects", file="ledger.db")]
