"""The store: everything that one database holds, opened once. Each service uses the ports that it needs."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from warrener_store.agents.store import AgentStore
from warrener_store.audit.store import AuditLog
from warrener_store.breakers.store import BreakerStore
from warrener_store.databases.session import StatementObserver
from warrener_store.dead_letters.port import DeadLetterStore
from warrener_store.duties import Duties
from warrener_store.errors import StoreUnavailable
from warrener_store.incidents.port import Escalations
from warrener_store.installation import Installations
from warrener_store.jobs.port import CancelledTrees, JobCheckpoints, JobStore, QueuedJobs, RunningAttempts
from warrener_store.logs.store import AttemptLogs
from warrener_store.parked.store import ParkedMessages
from warrener_store.retention.port import Retention
from warrener_store.schedules.port import (
    ScheduleDeclarations,
    ScheduleLists,
    Schedules,
    TickRetention,
    Triggers,
    Watches,
)
from warrener_store.sessions.store import SessionStore
from warrener_store.statistics.port import Statistics

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


class StateStore(
    JobStore,
    QueuedJobs,
    RunningAttempts,
    CancelledTrees,
    JobCheckpoints,
    AttemptLogs,
    AgentStore,
    BreakerStore,
    ParkedMessages,
    AuditLog,
    SessionStore,
    Duties,
    Protocol,
):
    """Jobs and all that services store about them.

    Errors of the database are StoreUnavailable (try again) or StoreRefused (a constraint: a bug).
    """

    @property
    def escalations(self) -> Escalations:
        """Incidents."""
        ...

    @property
    def dead_letter_store(self) -> DeadLetterStore:
        """Dead letters, and the redrives over them."""
        ...

    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated if the tables are not those of this version."""
        ...

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        ...

    async def ping(self) -> None:
        """Make one round trip. Raises StoreUnavailable if the database does not answer or is read-only."""
        ...

    async def time(self) -> datetime:
        """The database's clock, in UTC: all services that share the store compare times by it."""
        ...


class Store(
    StateStore,
    Schedules,
    ScheduleLists,
    ScheduleDeclarations,
    Watches,
    TickRetention,
    Installations,
    Protocol,
):
    """The state store with schedules, what is expected of them and who has declared them."""

    @property
    def retention(self) -> Retention:
        """Old rows, and their deletion."""
        ...

    @property
    def statistics(self) -> Statistics:
        """Jobs that are over, counted as they end; deploys."""
        ...

    @property
    def triggers(self) -> Triggers:
        """The events that schedules wait for."""
        ...


def open_store(url: str, *, observer: StatementObserver | None = None) -> Store:
    """The store at `sqlite:///path` or `postgresql://…`, not yet connected; `start` connects it.

    `observer` is called after each statement.

    Raises StoreUrlError if the url is of another form. The drivers are imported when a store is opened: they
    are large, and a user of the ports alone needs none.
    """
    from warrener_store.databases.address import SqliteAddress, parse_address  # noqa: PLC0415 - see above

    address = parse_address(url)
    if isinstance(address, SqliteAddress):
        from warrener_store.sqlite import SqliteStore  # noqa: PLC0415

        sqlite = SqliteStore(address)
        sqlite.observer = observer
        return sqlite
    from warrener_store.postgres import PostgresStore  # noqa: PLC0415

    postgres = PostgresStore(address)
    postgres.observer = observer
    return postgres


async def migrate(url: str, to: str = "head") -> None:
    """Bring the tables to revision `to`, up or down ("base": none). A repeat changes nothing.

    Raises StoreNotMigrated if the tables are then not as the steps up to "head" leave them: they are those of
    an unreleased version.
    """
    from warrener_store.migrations.migrator import (  # noqa: PLC0415 - Alembic is large and rarely needed
        migrate as run_migrations,
    )
    from warrener_store.on_demand import open_store_on_demand  # noqa: PLC0415 - it imports this module

    await run_migrations(url, to)
    if to == "head":
        store = open_store_on_demand(url)
        try:
            await store.start()
        finally:
            await store.close()


async def connect_with_retry(
    store: StateStore,
    *,
    sleep: Callable[[float], Awaitable[None]],
    waiting: Callable[[StoreUnavailable], None],
) -> None:
    """Start `store` as soon as its database answers; calls `waiting` once if it does not answer yet.

    An error that waiting cannot mend, such as StoreNotMigrated, is raised at once.
    """
    pause, is_reported = _FIRST_PAUSE, False
    while True:
        try:
            await store.start()
        except StoreUnavailable as error:
            if not is_reported:
                is_reported = True
                waiting(error)
        else:
            return
        await sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
