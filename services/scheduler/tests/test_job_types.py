"""Job types are at hand when a request comes, and what is at hand is hardly more than a second old."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from services.scheduler.tests.stage import announcement, declaration

from warrener_runtime.virtual_clock import VirtualClock
from warrener_scheduler.announce import job_type_rows
from warrener_scheduler.job_types import JobTypes
from warrener_store.memory import MemoryStore
from warrener_store.rows import JobTypeRow

LOAD = frozenset({"flights.load"})


class Library(MemoryStore):
    """A store that remembers how often it was asked for job types."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        self.asked += 1
        return await super().job_types(names)


async def announced(library: Library, at: datetime, queue: str = "default") -> None:
    rows = job_type_rows(announcement(declaration()), at)
    await library.put_job_types([replace(row, queue=queue, announced_at=at) for row in rows])


async def test_after_a_pause_nobody_waits_for_the_store() -> None:
    library, clock = Library(), VirtualClock()
    types = JobTypes(library, clock)
    await announced(library, clock.now())
    await types.named(LOAD)
    for _ in range(60):
        await clock.advance(1)
        await types.look()
    await announced(library, clock.now(), queue="other")
    await types.look()
    asked = library.asked
    assert (await types.named(LOAD))["flights.load"].row.queue == "other"
    assert library.asked == asked


async def test_what_nobody_has_asked_for_lately_is_not_looked_at() -> None:
    library, clock = Library(), VirtualClock()
    types = JobTypes(library, clock)
    await announced(library, clock.now())
    await types.look()
    assert library.asked == 0
    await types.named(LOAD)
    await clock.advance(3600)
    await types.look()
    assert library.asked == 1


async def test_what_is_old_is_read_again_even_if_nobody_looks() -> None:
    library, clock = Library(), VirtualClock()
    types = JobTypes(library, clock)
    await announced(library, clock.now())
    await types.named(LOAD)
    await clock.advance(2)
    await announced(library, clock.now(), queue="other")
    assert (await types.named(LOAD))["flights.load"].row.queue == "other"


async def test_a_look_does_not_bring_back_what_was_forgotten_meanwhile() -> None:
    clock = VirtualClock()

    class Slow(Library):
        """An agent announces something while the second answer is on its way."""

        async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
            found = await super().job_types(names)
            if self.asked == 2:
                await announced(self, clock.now(), queue="other")
                types.forget()
            return found

    library = Slow()
    types = JobTypes(library, clock)
    await announced(library, clock.now())
    await types.named(LOAD)
    await clock.advance(1)
    await types.look()
    assert (await types.named(LOAD))["flights.load"].row.queue == "other"
