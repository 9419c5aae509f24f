"""Errors of databases and drivers, translated into the errors of the store."""

import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager

from warrener_store.errors import StoreError, StoreFull, StoreNotMigrated, StoreRefused, StoreUnavailable

MIGRATE = "run `warrener migrate`"
AGAIN = "; it is tried again"  # by a service; a command that does not retry removes it
_UNDEFINED_TABLE, _DISK_FULL = "42P01", "53100"
# Classes of SQLSTATE that no retry mends: data, integrity, syntax, rights, limits such as of an index row.
_REFUSALS = frozenset({"22", "23", "42", "44", "54"})
_SQLITE_REFUSALS = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
    }
)


class Conflict(StoreUnavailable):
    """The database ended one of two transactions that were in a deadlock: retry at once."""


@contextmanager
def translate_errors(where: object) -> Generator[None]:
    """Raise errors inside as StoreUnavailable, StoreRefused or StoreNotMigrated."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning_for_sqlite(error, where) from error
    except postgres_errors() as error:
        raise _meaning_for_postgres(error, where) from error
    except (OSError, TimeoutError) as error:  # no connection could be made, or no answer came
        raise StoreUnavailable(f"the store {where} does not answer: {_sentence(error)}{AGAIN}") from error


def postgres_errors() -> tuple[type[Exception], ...]:
    """The errors of asyncpg: none as long as nobody has imported it, and SQLite needs no such import."""
    if "asyncpg" not in sys.modules:
        return ()
    from asyncpg import InterfaceError, InternalClientError, PostgresError  # noqa: PLC0415 - see above

    return PostgresError, InterfaceError, InternalClientError


def _meaning_for_postgres(origin: Exception, where: object) -> StoreError:
    state: str = getattr(origin, "sqlstate", None) or ""
    if state == _UNDEFINED_TABLE:
        return _not_migrated(where)
    if state == _DISK_FULL:
        return _full(origin, where)
    if state.startswith("40"):
        return Conflict(f"the store {where} broke off a transaction: {_sentence(origin)}{AGAIN}")
    if state[:2] in _REFUSALS:  # also values that the driver cannot write: it reports the same SQLSTATE
        return _refused(origin, where)
    return _unavailable(origin, where)


def _meaning_for_sqlite(origin: sqlite3.Error, where: object) -> StoreError:
    if "no such table" in str(origin):
        return _not_migrated(where)
    # Extended codes keep the primary one in their low byte. No code: the driver itself refused the values.
    code = getattr(origin, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return _full(origin, where)
    return _refused(origin, where) if code in _SQLITE_REFUSALS else _unavailable(origin, where)


def _not_migrated(where: object) -> StoreError:
    return StoreNotMigrated(f"the store {where} has no tables of this version; {MIGRATE}")


def _refused(origin: BaseException, where: object) -> StoreError:
    return StoreRefused(f"the store {where} refused a statement: {_sentence(origin)}")


def _full(origin: BaseException, where: object) -> StoreFull:
    return StoreFull(f"the store {where} takes no writes, its disk is full: {_sentence(origin)}{AGAIN}")


def _unavailable(origin: BaseException, where: object) -> StoreError:
    return StoreUnavailable(f"the store {where} does not answer as it should: {_sentence(origin)}{AGAIN}")


def _sentence(error: BaseException | None) -> str:
    """The first line of an error, or its name if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
