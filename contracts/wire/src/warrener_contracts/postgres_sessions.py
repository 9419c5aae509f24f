"""Opens sessions of PostgreSQL: on the first server of an address that takes writes and is no pooler.

The driver is the caller's: no driver is needed to import this.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from ssl import SSLCertVerificationError, SSLError
from typing import Any, Final, Protocol, TypeVar

from warrener_contracts.postgres_address import PostgresAddress, describe_host

READ_ONLY: Final = "25006"
"""The SQLSTATE of a write in a read-only transaction, as every one on a standby is."""
CANNOT_WRITE: Final = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"
_WHO = f"SELECT pg_backend_pid(), ({CANNOT_WRITE})"
_PROTOCOL_VIOLATION, _CONNECTION_GONE = "08P01", "08003"
_SHARED_SESSION = frozenset({"42P05", "26000"})  # a prepared statement is there, or is not: another client's
_NEXT_SERVER = frozenset({"57P03", "53300"})  # starting or ending; no connection left
_CLOSE_TIMEOUT = 2.0
_POOLER = (
    "a pooler such as PgBouncer answers at {}: it shares sessions, which breaks prepared statements and the"
    " limits of Warrener; name the address of PostgreSQL itself"
)
_STANDBY = (
    "the server at {} is a standby, or read-only; name the primary, or several hosts, or, to read alone,"
    " add target_session_attrs=any"
)
_CERTIFICATE = (
    "expected a valid certificate of PostgreSQL at {}, got one that fails: {};"
    " correct it, or sslrootcert, sslcrl or the host of the URL"
)
_OWN_CERTIFICATE = (
    "expected PostgreSQL at {} to accept this client's certificate, got {}; correct sslcert and sslkey"
)


class UnfitServer(ConnectionError):
    """A server answers and cannot be used: it is read-only, behind a pooler, or one side refuses the other's
    certificate."""


class _Session(Protocol):
    """The part of asyncpg's connection that opening one needs."""

    def get_server_pid(self) -> int: ...
    async def fetchrow(self, query: str) -> Any: ...
    async def close(self, *, timeout: float | None = None) -> None: ...
    def terminate(self) -> None: ...


S = TypeVar("S", bound=_Session)


async def open_session(address: PostgresAddress, connect: Callable[..., Awaitable[S]], **options: Any) -> S:
    """Open a session by `connect`, which is `asyncpg.connect`, with these further options.

    Each server has `connect_timeout`. Raises what asyncpg raises, and OSError if no server can be used.
    """
    _check_files(address)
    failures: list[str] = []
    last: Exception | None = None
    for host, port in address.url.hosts or ((None, None),):
        place = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
        where = describe_host(host or "localhost", port)
        try:
            async with asyncio.timeout(address.connect_timeout):
                return await _open_at(where, address, connect, {**options, **place})
        except Exception as error:
            if not isinstance(error, OSError | TimeoutError) and _state(error) not in _NEXT_SERVER:
                raise
            last = error
            failures.append(str(error) if isinstance(error, UnfitServer) else f"{where}: {_sentence(error)}")
    assert last is not None
    if len(failures) == 1:
        raise last
    raise ConnectionError("no server can be used: " + "; ".join(failures)) from last


async def _open_at(
    where: str, address: PostgresAddress, connect: Callable[..., Awaitable[S]], options: dict[str, Any]
) -> S:
    try:
        session = await connect(timeout=None, **address.connect, **options)
    except Exception as error:
        if _state(error) == _PROTOCOL_VIOLATION and "startup parameter" in str(error):
            raise UnfitServer(_POOLER.format(where)) from error
        if isinstance(error, SSLCertVerificationError):
            raise UnfitServer(_CERTIFICATE.format(where, error.verify_message.rstrip("."))) from error
        gone = _state(error) == _CONNECTION_GONE
        alert = error.__cause__ if gone else error
        if isinstance(alert, SSLError):
            reason = (alert.reason or str(alert)).rpartition("ALERT_")[2].replace("_", " ").lower()
        elif gone and address.files:  # the server may close before its reason is read
            reason = "a closed connection, whose reason is in the server's log"
        else:
            raise
        raise UnfitServer(_OWN_CERTIFICATE.format(where, reason)) from error
    try:
        pid, cannot_write = await session.fetchrow(_WHO)
    except BaseException as error:
        session.terminate()
        if _state(error) in _SHARED_SESSION:
            raise UnfitServer(_POOLER.format(where)) from error
        raise
    if pid != session.get_server_pid():
        unfit = _POOLER
    elif cannot_write and address.must_write:
        unfit = _STANDBY
    else:
        return session
    with suppress(OSError, TimeoutError):
        await session.close(timeout=_CLOSE_TIMEOUT)
    raise UnfitServer(unfit.format(where))


def _check_files(address: PostgresAddress) -> None:
    """Name a missing file: the driver's error does not."""
    for name, path in address.files.items():
        if not Path(path).is_file():
            raise FileNotFoundError(f"expected the file that {name} of {address} names, got no {path}")


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def _sentence(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
