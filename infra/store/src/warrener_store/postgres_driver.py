"""How connections to PostgreSQL are opened and closed: asyncpg's own, with nothing in between."""

from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from warrener_store.address import PostgresAddress

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone

_CONNECT_SECONDS = 10
_CHECK_SECONDS = 5
_CLOSE_SECONDS = 2
SILENCE = 60.0
"""Seconds after which a server that says nothing is taken to be gone, or the network to it."""


class PostgresDriver:
    """Connections on which each statement is a transaction: no BEGIN, no COMMIT to wait for. A statement is
    prepared when it is first used."""

    def __init__(self, address: PostgresAddress, *, silence: float = SILENCE) -> None:
        self._address, self._silence = address, silence

    async def open(self) -> "Connection":
        """A new one. Raises what asyncpg raises, in time."""
        return await asyncpg.connect(
            timeout=_CONNECT_SECONDS,
            command_timeout=self._silence,
            max_cacheable_statement_size=0,  # however long a statement is, it is prepared once
            **self._address.connect,
        )

    def broken(self, connection: "Connection") -> bool:
        """Whether its server has hung up."""
        return connection.is_closed()

    async def works(self, connection: "Connection") -> bool:
        """Whether the server answers through it, and soon."""
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.fetchval("SELECT 1", timeout=_CHECK_SECONDS)
            return True
        return False

    async def close(self, connection: "Connection") -> None:
        """Close it; a statement that still runs is cancelled, if the server listens."""
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.close(timeout=_CLOSE_SECONDS)  # past that asyncpg hangs up
