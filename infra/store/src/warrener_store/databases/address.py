"""The address of a store: a url, read into what the drivers take. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from warrener_store.errors import StoreError

_FORM = re.compile(
    r"""
    (?P<scheme>[\w+]+)://
    (?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?
    (?:(?:\[(?P<ipv6>[^/?]+)\]|(?P<host>[^/:?]+))?(?::(?P<port>[^/?]*))?)?
    (?:/(?P<database>[^?]*))?
    (?:\?(?P<query>.*))?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Url:
    """`backend+driver://user:password@host:port/database?name=value`.

    A password may contain `/`, `?` and `:`; an `@`, like any other character, may be written as `%40`.
    """

    backend: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    database: str | None = None
    query: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """The url without its password."""
        user = "" if self.user is None else quote(self.user, safe=" +")
        secret = "" if self.password is None else ":***"
        host = self.host or ""
        return "".join(
            (
                f"{self.backend}://",
                f"{user}{secret}@" if user or secret else "",
                f"[{host}]" if ":" in host else host,
                "" if self.port is None else f":{self.port}",
                "" if self.database is None else f"/{self.database}",
                "?" if self.query else "",
                "&".join(f"{quote(name)}={quote(value)}" for name, value in self.query),
            )
        )


def parse_url(text: str) -> Url:
    """Read a url; raises ValueError, whose message does not contain it, if it has another form."""
    found = _FORM.match(text)
    if found is None:
        raise ValueError("expected a url, got a text of another form")
    part = found.groupdict()
    return Url(
        backend=part["scheme"].partition("+")[0],
        user=_plain(part["user"]),
        password=_plain(part["password"]),
        host=part["ipv6"] or part["host"],
        port=_number(part["port"]),
        database=_plain(part["database"]),
        query=tuple(parse_qsl(part["query"] or "")),
    )


def _plain(quoted: str | None) -> str | None:
    return None if quoted is None else unquote(quoted)


def _number(port: str | None) -> int | None:
    if port and not port.isdecimal():
        raise ValueError("expected a number as the port")
    return int(port) if port else None


_EXPECTED = (
    'expected a store url such as "sqlite:///warrener.db" or "postgresql://user:secret@host:5432/database"'
)
_SESSION = {
    "application_name": "warrener",
    "jit": "off",  # short statements never repay compilation
    # Every statement goes by a primary key or an index made for it. With old statistics, or a plan cached
    # when the table was small, the planner would scan the table: harmless today, an outage at 10 million
    # rows.
    "enable_seqscan": "off",
    "random_page_cost": "1.1",
    "enable_memoize": "off",  # a batch looks no row up twice
}


class StoreUrlError(StoreError):
    """The url is not that of a store."""


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database of a PostgreSQL server."""

    url: Url  # without its query
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
    """Read a store's url. Raises StoreUrlError; no message contains a password."""
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
