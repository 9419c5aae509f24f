"""The store in a SQLite file."""

from warrener_store.agents.store import SqlAgents
from warrener_store.audit.store import SqlAuditLog
from warrener_store.breakers.store import SqlBreakers
from warrener_store.databases.sqlite import SqliteSession
from warrener_store.dead_letters.sqlite import SqliteDeadLetters
from warrener_store.duties import SqlDuties
from warrener_store.incidents.sqlite import SqliteEscalations
from warrener_store.installation import SqlInstallations
from warrener_store.jobs.sqlite import SqliteJobs
from warrener_store.logs.store import SqlAttemptLogs
from warrener_store.parked.store import SqlParkedMessages
from warrener_store.retention.sqlite import SqliteRetention
from warrener_store.schedules.lists import SqlScheduleLists
from warrener_store.schedules.sqlite import SqliteSchedules, SqliteTriggers, SqliteWatches
from warrener_store.sessions.store import SqlSessions
from warrener_store.statistics.sqlite import SqliteStatistics
from warrener_store.store import Store


class SqliteStore(
    SqliteJobs,
    SqlAttemptLogs,
    SqlAgents,
    SqlBreakers,
    SqlParkedMessages,
    SqlAuditLog,
    SqlSessions,
    SqliteSchedules,
    SqlScheduleLists,
    SqliteWatches,
    SqlInstallations,
    SqlDuties,
    SqliteTriggers,
    SqliteDeadLetters,
    SqliteEscalations,
    SqliteRetention,
    SqliteStatistics,
    SqliteSession,
    Store,
):
    """All ports on one file. Safe for any number of tasks and processes of one host."""

    @property
    def escalations(self) -> SqliteEscalations:
        return self

    @property
    def dead_letter_store(self) -> SqliteDeadLetters:
        return self

    @property
    def retention(self) -> SqliteRetention:
        return self

    @property
    def statistics(self) -> SqliteStatistics:
        return self

    @property
    def triggers(self) -> SqliteTriggers:
        return self
