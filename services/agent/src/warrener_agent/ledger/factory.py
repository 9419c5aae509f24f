"""Which ledger a URL means."""

from pathlib import Path

from warrener_agent.ledger.port import Ledger
from warrener_agent.ledger.postgres import PostgresLedger
from warrener_agent.ledger.sqlite import SqliteLedger

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


def open_ledger(url: str) -> Ledger:
    """The ledger at `url`: `sqlite:///path/to/file` (a fourth slash makes the path absolute) or
    `postgresql://…`.

    Connects nowhere yet: `start()` does. Raises ValueError where the URL means none.
    """
    if url.startswith(_POSTGRES):
        return PostgresLedger(url)
    path = url.removeprefix(_SQLITE) if url.startswith(_SQLITE) else ""
    if not path or path.startswith(":memory:"):
        raise ValueError(
            'expected a ledger URL such as "sqlite:///ledger.db" or "postgresql://user@host/name", '
            f"got {url!r}: "
            "a ledger that outlives its agent is a file or a server"
        )
    return SqliteLedger(Path(path))
