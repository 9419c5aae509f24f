"""The store in memory: for tests, for the simulation, and as the plainest statement of what a store is.

Nothing here awaits anything, so each operation is atomic. It passes the same conformance suites as the
databases.
"""

from datetime import UTC, datetime
from uuid import UUID

from warrener_store.agents.store import MemoryAgents
from warrener_store.audit.store import MemoryAuditLog
from warrener_store.breakers.store import MemoryBreakers
from warrener_store.dead_letters.memory import MemoryDeadLetters
from warrener_store.duties import MemoryDuties
from warrener_store.incidents.memory import MemoryEscalations
from warrener_store.jobs.memory import MemoryJobs
from warrener_store.logs.store import MemoryAttemptLogs
from warrener_store.parked.store import MemoryParked
from warrener_store.retention.memory import MemoryRetention
from warrener_store.schedules.memory import MemorySchedules
from warrener_store.sessions.store import MemorySessions
from warrener_store.statistics.memory import MemoryStatistics
from warrener_store.store import Store


class MemoryStore(
    MemoryJobs,
    MemoryAttemptLogs,
    MemoryAgents,
    MemoryBreakers,
    MemoryParked,
    MemoryAuditLog,
    MemorySessions,
    MemorySchedules,
    MemoryDuties,
    MemoryRetention,
    MemoryStatistics,
    Store,
):
    """Stores everything in dictionaries; start and close change nothing."""

    def __init__(self) -> None:
        MemoryJobs.__init__(self)
        MemoryAttemptLogs.__init__(self)
        MemorySchedules.__init__(self)
        MemoryAgents.__init__(self)
        MemoryBreakers.__init__(self)
        MemoryParked.__init__(self)
        MemoryAuditLog.__init__(self)
        MemorySessions.__init__(self)
        MemoryDuties.__init__(self)
        MemoryStatistics.__init__(self)
        self._installation: UUID | None = None
        self._escalations = MemoryEscalations()
        self._dead_letter_store = MemoryDeadLetters(self._dead_letters, self._jobs)

    @property
    def escalations(self) -> MemoryEscalations:
        return self._escalations

    @property
    def dead_letter_store(self) -> MemoryDeadLetters:
        return self._dead_letter_store

    @property
    def retention(self) -> MemoryRetention:
        return self

    @property
    def statistics(self) -> MemoryStatistics:
        return self

    async def start(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """The rows stay: other users may share them."""

    async def ping(self) -> None:
        """Always answers."""

    async def time(self) -> datetime:
        """The machine's clock; a simulation has its own."""
        return datetime.now(UTC)

    async def installation(self, candidate: UUID | None = None) -> UUID | None:
        self._installation = self._installation or candidate
        return self._installation
