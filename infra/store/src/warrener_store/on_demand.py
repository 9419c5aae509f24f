"""The store for programs that use little of it: an aggregate is imported with the first use of a method.

A service imports all of the store at its start (`open_store`), so that no message waits for an import. A
command uses one or two aggregates of ten; the others would be a fifth of its processor time.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from warrener_store.databases.address import SqliteAddress, parse_address

if TYPE_CHECKING:
    from warrener_store.store import Store

PARTS: Mapping[str, str] = {
    "jobs.sql.SqlJobLists": "jobs_by_id list_jobs find_jobs attempts_of count_jobs",
    "jobs.sql.SqlQueuedJobs": "queue_heads queued_groups",
    "jobs.sql.SqlJobExtras": "checkpoints_of",
    "logs.store.SqlAttemptLogs": "logs_of",
    "agents.store.SqlAgents": "agents job_types",
    "breakers.store.SqlBreakers": "breakers",
    "parked.store.SqlParkedMessages": "park parked group_parked forget_parked",
    "schedules.{engine}.{Engine}Schedules": "schedules ticks_of",
    "schedules.{engine}.{Engine}Watches": "late_schedules",
    "installation.SqlInstallations": "installation",
    "duties.SqlDuties": "duties",
    "dead_letters.{engine}.{Engine}DeadLetters": "dead_letter_store",
    "incidents.{engine}.{Engine}Escalations": "escalations",
    "retention.{engine}.{Engine}Retention": "retention",
    "statistics.{engine}.{Engine}Statistics": "statistics",
}
"""The classes for reading, and the names of the store that each has; all others are of the whole store."""
PORTS = frozenset({"dead_letter_store", "escalations", "retention", "statistics"})
"""Properties of the store that are a port of their own."""
_HOMES = {name: home for home, names in PARTS.items() for name in names.split()}


def open_store_on_demand(url: str) -> "Store":
    """As `open_store`, without the imports. Raises StoreUrlError if the url is of another form."""
    address = parse_address(url)
    if isinstance(address, SqliteAddress):
        from warrener_store.databases.sqlite import SqliteSession  # noqa: PLC0415 - the driver of the other is large

        return cast("Store", _with_parts("sqlite", SqliteSession)(address))
    from warrener_store.databases.postgres import PostgresSession  # noqa: PLC0415 - as above

    return cast("Store", _with_parts("postgres", PostgresSession)(address))


def _with_parts(engine: str, session: type[Any]) -> Any:
    """A class of sessions that finds the methods of the ports."""

    def find(store: Any, name: str) -> Any:
        """The method of this name, of a part that works on the connections of this store."""
        if name.startswith("_"):
            raise AttributeError(f"{type(store).__name__!r} object has no attribute {name!r}")
        part_class = part_of(engine, name)
        part: Any = object.__new__(part_class)
        part.__dict__ = store.__dict__
        return part if name in PORTS else getattr(part, name)

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
