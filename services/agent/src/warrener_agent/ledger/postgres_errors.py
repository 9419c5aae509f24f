"""Which of asyncpg's errors mean that the database was not there, and that trying again may help."""

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from warrener_agent.ledger.port import LedgerUnavailable

_PASSING = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.DiskFullError,
    asyncpg.OutOfMemoryError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, or a server that was made one
    asyncpg.IdleInTransactionSessionTimeoutError,
)


@contextmanager
def translate_outages() -> Generator[None]:
    """A server that is gone, starting, full or overloaded is LedgerUnavailable."""
    try:
        yield
    except asyncpg.DataError:  # asyncpg makes it an InterfaceError too, and it is the caller's
        raise
    except _PASSING as error:
        raise LedgerUnavailable(
            f"expected the ledger's PostgreSQL to answer, got {type(error).__name__}: {error}; try again"
        ) from error
