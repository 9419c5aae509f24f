"""Opening the store: all of it, or on demand.

A service imports all of the store at its start (`open_store`), so that no message waits for an import. A
command uses one or two aggregates of ten, and the others would be a fifth of its processor time: for it an
aggregate is imported with the first use of a method (`open_store_on_demand`). The drivers are large too, so
each is imported when a store is opened that needs it.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from warrener_store.databases.address import SqliteAddress, parse_address

if TYPE_CHECKING:
    from warrener_store.databases.session import StatementObserver
    from warrener_store.store import Store

PARTS: Mapping[str, str] = {
    "jobs.store.JobLists": "jobs_by_id list_jobs find_jobs attempts_of count_jobs unique_key_of",
    "jobs.store.QueuedJobs": "queue_heads queued_groups",
    "jobs.store.JobCheckpoints": "checkpoints_of",
    "logs.store.AttemptLogs": "logs_of",
    "workflows.store.WorkflowStore": "turns_of sent_signals count_waits child_status",
    "agents.store.AgentStore": "agents job_types",
    "breakers.store.BreakerStore": "breakers",
    "gates.store.GateStore": "gates_from slots_of first_waiters waiter_of count_before gate_rooms",
    "parked.store.ParkedMessages": "park parked parked_summaries group_parked forget_parked",
    "schedules.store.ScheduleLists": "list_schedules runs_of",
    "schedules.{engine}.{Engine}Schedules": "schedules ticks_of",
    "schedules.{engine}.{Engine}Watches": "late_schedules",
    "audit.store.AuditLog": "audit_records",
    "installation.Installations": "installation",
    "installation.Duties": "duties",
    "dead_letters.store.{Engine}DeadLetters": "dead_letter_store",
    "incidents.store.{Engine}Escalations": "escalations",
    "retention.store.{Engine}Retention": "retention",
    "statistics.store.{Engine}Statistics": "statistics",
}
"""The classes for reading, and the names of the store that each has; all others are of the whole store."""
PROPERTIES = frozenset({"dead_letter_store", "escalations", "retention", "statistics"})
"""The names that are a part as a whole."""
_HOMES = {name: home for home, names in PARTS.items() for name in names.split()}


def open_store(url: str, *, observer: "StatementObserver | None" = None) -> "Store":
    """The store at `sqlite:///path` or `postgresql://…`, not yet connected; `start` connects it.

    `observer` is called after each statement.

    Raises StoreUrlError if the url is of another form.
    """
    address = parse_address(url)
    if isinstance(address, SqliteAddress):
        from warrener_store.sqlite import SqliteStore  # noqa: PLC0415 - the driver of the other is large

        sqlite = SqliteStore(address)
        sqlite.observer = observer
        return sqlite
    from warrener_store.postgres import PostgresStore  # noqa: PLC0415 - as above

    postgres = PostgresStore(address)
    postgres.observer = observer
    return postgres


def open_store_on_demand(url: str) -> "Store":
    """As `open_store`, without the imports. Raises StoreUrlError if the url is of another form."""
    address = parse_address(url)
    if isinstance(address, SqliteAddress):
        from warrener_store.databases.sqlite import SqliteSession  # noqa: PLC0415 - as above

        return cast("Store", _with_parts("sqlite", SqliteSession)(address))
    from warrener_store.databases.postgres import PostgresSession  # noqa: PLC0415 - as above

    return cast("Store", _with_parts("postgres", PostgresSession)(address))


def _with_parts(engine: str, session: type[Any]) -> Any:
    """A class of sessions that finds the methods of the parts."""

    def find(store: Any, name: str) -> Any:
        """The method of this name, of a part that works on the connections of this store."""
        if name.startswith("_"):
            raise AttributeError(f"{type(store).__name__!r} object has no attribute {name!r}")
        part_class = part_of(engine, name)
        part: Any = object.__new__(part_class)
        part.__dict__ = store.__dict__
        return part if name in PROPERTIES else getattr(part, name)

    return type(session.__name__, (session,), {"__getattr__": find})


@cache
def part_of(engine: str, name: str) -> type[Any]:
    """The class that has the method of this name; the whole store if the method writes."""
    home = _HOMES.get(name, "{engine}.{Engine}Store").format(engine=engine, Engine=engine.capitalize())
    module, _, class_name = home.rpartition(".")
    found = cast("type[Any]", getattr(import_module(f"warrener_store.{module}"), class_name))
    session_module = import_module(f"warrener_store.databases.{engine}")
    session = cast("type[Any]", getattr(session_module, f"{engine.capitalize()}Session"))
    return found if issubclass(found, session) else type(class_name, (found, session), {})


async def migrate(url: str, to: str = "head") -> None:
    """Bring the tables up to revision `to`; a repeat or a failure changes nothing.

    Raises StoreNotMigrated if the tables are then not as the steps up to "head" leave them: they are those of
    an unreleased version.
    """
    from warrener_store.migrations.migrator import migrate as run_migrations  # noqa: PLC0415 - it imports both drivers

    await run_migrations(url, to)
    if to == "head":
        store = open_store_on_demand(url)
        try:
            await store.start()
        finally:
            await store.close()
