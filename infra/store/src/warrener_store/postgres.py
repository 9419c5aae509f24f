"""The store in PostgreSQL."""

from warrener_store.agents.store import SqlAgents
from warrener_store.audit.store import SqlAuditLog
from warrener_store.breakers.store import SqlBreakers
from warrener_store.databases.postgres import PostgresSession
from warrener_store.dead_letters.postgres import PostgresDeadLetters
from warrener_store.duties import SqlDuties
from warrener_store.incidents.postgres import PostgresEscalations
from warrener_store.installation import SqlInstallations
from warrener_store.jobs.postgres import PostgresJobs
from warrener_store.logs.store import SqlAttemptLogs
from warrener_store.parked.store import SqlParkedMessages
from warrener_store.retention.postgres import PostgresRetention
from warrener_store.schedules.lists import SqlScheduleLists
from warrener_store.schedules.postgres import PostgresSchedules, PostgresTriggers, PostgresWatches
from warrener_store.sessions.store import SqlSessions
from warrener_store.statistics.postgres import PostgresStatistics
from warrener_store.store import Store


class PostgresStore(
    PostgresJobs,
    SqlAttemptLogs,
    SqlAgents,
    SqlBreakers,
    SqlParkedMessages,
    SqlAuditLog,
    SqlSessions,
    PostgresSchedules,
    SqlScheduleLists,
    PostgresWatches,
    SqlInstallations,
    SqlDuties,
    PostgresTriggers,
    PostgresDeadLetters,
    PostgresEscalations,
    PostgresRetention,
    PostgresStatistics,
    PostgresSession,
    Store,
):
    """All ports on one pool of connections. Safe for any number of tasks, processes and hosts at once."""

    @property
    def escalations(self) -> PostgresEscalations:
        return self

    @property
    def dead_letter_store(self) -> PostgresDeadLetters:
        return self

    @property
    def retention(self) -> PostgresRetention:
        return self

    @property
    def statistics(self) -> PostgresStatistics:
        return self

    @property
    def triggers(self) -> PostgresTriggers:
        return self
