"""The store in a SQLite file."""

from warrener_store.databases.sqlite import SqliteSession
from warrener_store.dead_letters.store import SqliteDeadLetters
from warrener_store.incidents.store import SqliteEscalations
from warrener_store.jobs.sqlite import SqliteJobs
from warrener_store.retention.store import SqliteRetention
from warrener_store.schedules.sqlite import SqliteSchedules, SqliteTriggers, SqliteWatches
from warrener_store.statistics.store import SqliteStatistics
from warrener_store.store import Store


class SqliteStore(
    SqliteJobs,
    SqliteEscalations,
    SqliteDeadLetters,
    SqliteSchedules,
    SqliteWatches,
    SqliteTriggers,
    SqliteRetention,
    SqliteStatistics,
    SqliteSession,
    Store,
):
    """All parts on one file. Safe for any number of tasks and processes of one host."""
