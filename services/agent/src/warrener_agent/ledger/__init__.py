"""The ledger, where attempts are claimed and their completions recorded; `open_ledger` chooses the engine."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from warrener_agent.ledger.port import Ledger
from warrener_contracts.postgres_address import parse_url, postgres_address

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


def open_ledger(url: str) -> Ledger:
    """Return the ledger at `url`: `sqlite:///path/to/file` (a fourth slash makes the path absolute) or
    `postgresql://…`.

    The ledger is not connected yet: `start()` does that. Raises ValueError for any other URL, and for
    PostgreSQL without the extra `postgres`.
    """
    # An agent loads the engine of its own ledger, and a child process none.
    if url.startswith(_POSTGRES):
        try:
            from warrener_agent.ledger.postgres import PostgresLedger  # noqa: PLC0415 - see above
        except ModuleNotFoundError as missing:
            if missing.name != "asyncpg":
                raise
            raise ValueError(
                "expected asyncpg for a ledger in PostgreSQL, got no such package;"
                " install warrener-agent[postgres]"
            ) from missing
        return PostgresLedger(postgres_address(parse_url(url)))
    path = url.removeprefix(_SQLITE) if url.startswith(_SQLITE) else ""
    if not path or path.startswith(":memory:"):
        raise ValueError(
            'expected a ledger URL such as "sqlite:///ledger.db" or "postgresql://user@host/name", '
            f"got {url!r}: a ledger that outlives its agent is a file or a server"
        )
    from warrener_agent.ledger.sqlite import SqliteLedger  # noqa: PLC0415 - see above

    return SqliteLedger(Path(path))


@asynccontextmanager
async def connected_ledger(url: str) -> AsyncGenerator[Ledger]:
    """Open the ledger at `url` by connections of its own, and close it afterwards."""
    ledger = open_ledger(url)
    try:
        await ledger.start()
        yield ledger
    finally:
        await ledger.close()
