"""Job types are cached when a request arrives, and hardly more than a second old."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from services.scheduler.tests.stage import announcement, declaration

from warrener_runtime.virtual_clock import VirtualClock
from warrener_scheduler.job_types import JobTypeCache, job_type_rows
from warrener_store.agents.rows import JobTypeRow
from warrener_store.memory import MemoryStore

LOAD = frozenset({"flights.load"})


class Library(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        self.reads += 1
        return await super().job_types(names)


async def announced(library: Library, at: datetime, queue: str = "default") -> None:
    rows = job_type_rows(announcement(declaration()), at)
    await library.put_job_types([replace(row, queue=queue, announced_at=at) for row in rows])


async def test_after_a_pause_nobody_waits_for_the_store() -> None:
    library, clock = Library(), VirtualClock()
    types = JobTypeCache(library, clock)
    await announced(library, clock.now())
    await types.get_many(LOAD)
    for _ in range(60):
        await clock.advance(1)
        await types.refresh()
    await announced(library, clock.now(), queue="other")
    await types.refresh()
    reads = library.reads
    assert (await types.get_many(LOAD))["flights.load"].row.queue == "other"
    assert library.reads == reads


async def test_job_types_that_are_not_used_lately_are_not_refreshed() -> None:
    library, clock = Library(), VirtualClock()
    types = JobTypeCache(library, clock)
    await announced(library, clock.now())
    await types.refresh()
    assert library.reads == 0
    await types.get_many(LOAD)
    await clock.advance(3600)
    await types.refresh()
    assert library.reads == 1


async def test_what_is_old_is_read_again_even_if_nobody_looks() -> None:
    library, clock = Library(), VirtualClock()
    types = JobTypeCache(library, clock)
    await announced(library, clock.now())
    await types.get_many(LOAD)
    await clock.advance(2)
    await announced(library, clock.now(), queue="other")
    assert (await types.get_many(LOAD))["flights.load"].row.queue == "other"


async def test_a_look_does_not_bring_back_what_was_forgotten_meanwhile() -> None:
    clock = VirtualClock()

    class Slow(Library):
        """An agent announces something while the second answer is on its way."""

        async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
            found = await super().job_types(names)
            if self.reads == 2:
                await announced(self, clock.now(), queue="other")
                types.invalidate()
            return found

    library = Slow()
    types = JobTypeCache(library, clock)
    await announced(library, clock.now())
    await types.get_many(LOAD)
    await clock.advance(1)
    await types.refresh()
    assert (await types.get_many(LOAD))["flights.load"].row.queue == "other"
