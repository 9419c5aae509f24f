"""The store in PostgreSQL."""

from warrener_store.databases.postgres import PostgresSession
from warrener_store.dead_letters.store import PostgresDeadLetters
from warrener_store.incidents.store import PostgresEscalations
from warrener_store.jobs.postgres import PostgresJobs
from warrener_store.retention.store import PostgresRetention
from warrener_store.schedules.postgres import PostgresSchedules, PostgresTriggers, PostgresWatches
from warrener_store.statistics.store import PostgresStatistics
from warrener_store.store import Store


class PostgresStore(
    PostgresJobs,
    PostgresEscalations,
    PostgresDeadLetters,
    PostgresSchedules,
    PostgresWatches,
    PostgresTriggers,
    PostgresRetention,
    PostgresStatistics,
    PostgresSession,
    Store,
):
    """All parts on one pool of connections. Safe for any number of tasks, processes and hosts at once."""
