"""Where a store is: the url of a user, read into what the drivers want."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from warrener_store.port import StoreError

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

    url: URL  # for SQLAlchemy with asyncpg
    connect: Mapping[str, Any]  # arguments of asyncpg.connect

    def __str__(self) -> str:
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A file on this host."""

    path: Path

    @property
    def url(self) -> URL:
        """For SQLAlchemy with aiosqlite."""
        return URL.create("sqlite+aiosqlite", database=str(self.path))

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


def address_of(url: str) -> PostgresAddress | SqliteAddress:
    """Read a url; raises StoreUrlError that says what was expected. A password never stands in a message."""
    try:
        read = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreUrlError(f"{_EXPECTED}, got one that cannot be read; correct WARRENER_STORE_URL") from None
    match read.get_backend_name():
        case "sqlite":
            return _sqlite(read)
        case "postgresql" | "postgres":
            return _postgres(read)
        case other:
            raise StoreUrlError(f"{_EXPECTED}, got {other!r}; correct WARRENER_STORE_URL")


def _sqlite(url: URL) -> SqliteAddress:
    if url.database in (None, "", ":memory:") or url.host:
        raise StoreUrlError(
            f"{_EXPECTED}, got {url.render_as_string()}; name a file (three slashes for a relative path, "
            "four for an absolute one): several processes share it"
        )
    return SqliteAddress(Path(str(url.database)))


def _postgres(url: URL) -> PostgresAddress:
    connect: dict[str, Any] = {}
    settings = dict(_SESSION)
    for name, value in url.query.items():
        match name:
            case "sslmode":
                connect["ssl"] = value
            case "application_name":
                settings["application_name"] = str(value)
            case _:
                raise StoreUrlError(
                    f"expected only sslmode and application_name behind the ? of {url.render_as_string()}, "
                    f"got {name}; leave it out"
                )
    if not url.database:
        raise StoreUrlError(f"{_EXPECTED}, got {url.render_as_string()}; name the database")
    return PostgresAddress(
        url.set(drivername="postgresql+asyncpg", query={}), connect | {"server_settings": settings}
    )
