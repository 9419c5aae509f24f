"""Who keeps a schedule of one tick a second, and what has to run for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from tools.benchmarks.place import Place
from tools.benchmarks.systems.celery_system import Celery
from tools.benchmarks.systems.port import Command
from tools.benchmarks.systems.warrener_system import Warrener

from warrener_client import Client
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import IntervalRule


class TickingSystem(Protocol):
    """A system with a job that says when it began, once a second."""

    @property
    def name(self) -> str:
        """As it stands in the table."""
        ...

    @property
    def settings(self) -> str:
        """What was set, for the reader of the table."""
        ...

    @property
    def phase(self) -> float | None:
        """The fraction of the second at which its ticks are due; None where it promises none."""
        ...

    def prepare(self, place: Place) -> None:
        """Make its tables in a fresh place."""

    def processes(self, place: Place) -> Sequence[Command]:
        """All that has to run."""
        ...

    def put(self, place: Place) -> None:
        """Ask for the schedule, where that is not in the code of the processes."""


@dataclass(frozen=True, slots=True)
class WarrenerClock:
    """Ours: the tick is kept in the ledger before the job is asked for."""

    name: str = "warrener"
    settings: str = "interval of 1 s, ledger of ticks in PostgreSQL, the job passes all three services"
    phase: float | None = 0.0

    def prepare(self, place: Place) -> None:
        Warrener().prepare(place)

    def processes(self, place: Place) -> Sequence[Command]:
        return Warrener().workers(place, 1)

    def put(self, place: Place) -> None:
        asyncio.run(put(place, [SchedulePutData(name="lag", rule=EVERY_SECOND, job_type="stamped")]))


@dataclass(frozen=True, slots=True)
class CeleryBeat:
    """A beat and a worker, with the settings that Celery has in the rest of the run."""

    name: str = "celery"
    settings: str = (
        "beat with the schedule 1.0 and its default store, a file; worker as in the rest of the run"
    )
    phase: float | None = None

    def prepare(self, place: Place) -> None:
        Celery().prepare(place)

    def processes(self, place: Place) -> Sequence[Command]:
        app = ("-m", "celery", "-A", "tools.benchmarks.apps.celery_beat_app")
        beat = ("beat", "--loglevel", "WARNING", "-s", f"{place.folder}/beat", "--pidfile", "")
        worker = ("worker", "-c", "2", "--loglevel", "WARNING", "--without-gossip", "--without-mingle")
        return [Command((*app, *worker)), Command((*app, *beat))]

    def put(self, place: Place) -> None:
        """It stands in the app."""


@dataclass(frozen=True, slots=True)
class ApScheduler:
    """One process that ticks and runs the job in a thread of its own: nothing travels."""

    name: str = "apscheduler"
    settings: str = "BlockingScheduler, job store in PostgreSQL, interval of 1 s, the job runs in its process"
    phase: float | None = 0.5

    def prepare(self, place: Place) -> None:
        """It makes its table."""

    def processes(self, place: Place) -> Sequence[Command]:
        return [Command(("-m", "tools.benchmarks.apps.apscheduler_app"))]

    def put(self, place: Place) -> None:
        """It stands in the app."""


EVERY_SECOND = IntervalRule(every=timedelta(seconds=1))
CLOCKS: Sequence[TickingSystem] = (WarrenerClock(), CeleryBeat(), ApScheduler())


async def put(place: Place, schedules: Sequence[SchedulePutData]) -> None:
    """Ask for schedules of ours."""
    async with Client(place.broker_url) as client:
        await client.put_schedules(schedules)
