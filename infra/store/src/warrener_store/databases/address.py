"""The address of a store: a url, read into what the drivers take. Pure."""

from dataclasses import dataclass
from pathlib import Path

from warrener_contracts.postgres_address import PostgresAddress, PostgresUrlError, parse_url, postgres_address
from warrener_store.errors import StoreError

_EXPECTED = (
    'expected a store url such as "sqlite:///warrener.db" or "postgresql://user:secret@host:5432/database"'
)
SESSION = {
    "jit": "off",  # short statements never repay compilation
    # Every statement goes by a primary key or an index made for it. With old statistics, or a plan cached
    # when the table was small, the planner would scan the table: harmless today, an outage at 10 million
    # rows.
    "enable_seqscan": "off",
    "random_page_cost": "1.1",
    "enable_memoize": "off",  # a batch looks no row up twice
}


def server_settings(address: PostgresAddress) -> dict[str, str]:
    """The settings of every session of the store."""
    return SESSION | {"application_name": address.application_name or "warrener"}


class StoreUrlError(StoreError):
    """The url is not that of a store."""


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A file on this host."""

    path: Path

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


def parse_address(url: str) -> PostgresAddress | SqliteAddress:
    """Read a store's url. Raises StoreUrlError; no message contains a password."""
    try:
        read = parse_url(url)
    except PostgresUrlError:
        raise StoreUrlError(f"{_EXPECTED}, got one that cannot be read; correct WARRENER_STORE_URL") from None
    match read.backend:
        case "sqlite" if read.database in (None, "", ":memory:") or read.hosts:
            raise StoreUrlError(
                f"{_EXPECTED}, got {read}; name a file (three slashes for a relative path, "
                "four for an absolute one): several processes share it"
            )
        case "sqlite":
            return SqliteAddress(Path(str(read.database)))
        case "postgresql" | "postgres":
            try:
                return postgres_address(read)
            except PostgresUrlError as error:
                raise StoreUrlError(str(error)) from None
        case other:
            raise StoreUrlError(f"{_EXPECTED}, got {other!r}; correct WARRENER_STORE_URL")
