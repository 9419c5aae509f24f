"""Where a store is: the url of a user, read into what the drivers want."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from warrener_store.port import StoreError
from warrener_store.url import Url, parse_url

_EXPECTED = (
    'expected a store url such as "sqlite:///warrener.db" or "postgresql://user:secret@host:5432/database"'
)


_SESSION = {
    "application_name": "warrener",
    "jit": "off",  # short statements never repay compilation
    # Every statement goes by a primary key or an index made for it. A planner that trusts old statistics, or
    # a plan kept from when the table was small, would rather read it through: harmless today, an outage at
    # 10 million.
    "enable_seqscan": "off",
    "random_page_cost": "1.1",
    "enable_memoize": "off",  # a batch looks no row up twice
}


class StoreUrlError(StoreError):
    """The url does not say where a store is."""


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database of a PostgreSQL server."""

    url: Url  # without what stands behind its ?
    connect: Mapping[str, Any] = field(repr=False)  # the arguments of asyncpg.connect, with the password

    def __str__(self) -> str:
        return str(self.url)


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A file on this host."""

    path: Path

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


def parse_address(url: str) -> PostgresAddress | SqliteAddress:
    """Read a url; raises StoreUrlError that says what was expected. A password never stands in a message."""
    try:
        read = parse_url(url)
    except ValueError:
        raise StoreUrlError(f"{_EXPECTED}, got one that cannot be read; correct WARRENER_STORE_URL") from None
    match read.backend:
        case "sqlite":
            return _sqlite(read)
        case "postgresql" | "postgres":
            return _postgres(replace(read, backend="postgresql"))
        case other:
            raise StoreUrlError(f"{_EXPECTED}, got {other!r}; correct WARRENER_STORE_URL")


def _sqlite(url: Url) -> SqliteAddress:
    if url.database in (None, "", ":memory:") or url.host:
        raise StoreUrlError(
            f"{_EXPECTED}, got {url}; name a file (three slashes for a relative path, "
            "four for an absolute one): several processes share it"
        )
    return SqliteAddress(Path(str(url.database)))


def _postgres(url: Url) -> PostgresAddress:
    connect: dict[str, Any] = {}
    settings = dict(_SESSION)
    for name, value in url.query:
        match name:
            case "sslmode":
                connect["ssl"] = value
            case "application_name":
                settings["application_name"] = value
            case _:
                raise StoreUrlError(
                    f"expected only sslmode and application_name behind the ? of {url}, got {name}; "
                    "leave it out"
                )
    if not url.database:
        raise StoreUrlError(f"{_EXPECTED}, got {url}; name the database")
    place = {
        "host": url.host,
        "port": url.port,
        "user": url.user,
        "password": url.password,
        "database": url.database,
    }
    connect |= {name: value for name, value in place.items() if value is not None}
    return PostgresAddress(replace(url, query=()), connect | {"server_settings": settings})
