"""The address of a PostgreSQL database, in one grammar for the store and the ledger. Pure.

`postgresql://user:password@host:5432,host2/database?sslmode=verify-full&sslrootcert=/etc/ca.pem`
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from warrener_contracts.postgres_limits import CONNECT_TIMEOUT

_FORM = re.compile(
    r"""
    (?P<scheme>[\w+]+)://
    (?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?
    (?P<hosts>[^/?]*)
    (?:/(?P<database>[^?]*))?
    (?:\?(?P<query>.*))?
    """,
    re.VERBOSE,
)
_HOST = re.compile(r"(?:\[(?P<ipv6>[^]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>\d*))?")
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_CHECKED_MODES = ("require", "verify-ca", "verify-full")
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "sslmode": ("disable", "allow", "prefer", *_CHECKED_MODES),
    "target_session_attrs": ("read-write", "primary", "any"),
}
_OPTIONS: Final = (*_CHOICES, *_FILES, "connect_timeout", "application_name")


class PostgresUrlError(ValueError):
    """The url is not that of a database; the text contains no password."""


@dataclass(frozen=True, slots=True)
class Url:
    """`backend+driver://user:password@host:port,host:port/database?name=value`.

    A password may contain `/`, `?` and `:`; an `@`, like any other character, may be written as `%40`.
    """

    backend: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    hosts: tuple[tuple[str, int | None], ...] = ()
    database: str | None = None
    query: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """The url without its password."""
        user = "" if self.user is None else quote(self.user, safe=" +")
        secret = "" if self.password is None else ":***"
        return "".join(
            (
                f"{self.backend}://",
                f"{user}{secret}@" if user or secret else "",
                ",".join(describe_host(*host) for host in self.hosts),
                "" if self.database is None else f"/{self.database}",
                "?" if self.query else "",
                "&".join(f"{quote(name)}={quote(value)}" for name, value in self.query),
            )
        )


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database on one server, or on several, one of which takes writes."""

    url: Url  # without its query
    connect: Mapping[str, Any] = field(repr=False)  # arguments of asyncpg.connect, but for host and port
    connect_timeout: float  # seconds for each server
    must_write: bool = True
    application_name: str | None = None
    files: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return str(self.url)


def describe_host(name: str, port: int | None) -> str:
    """A server as a url has it."""
    host = f"[{name}]" if ":" in name else quote(name)
    return host if port is None else f"{host}:{port}"


def parse_url(text: str) -> Url:
    """Read a url; raises PostgresUrlError, whose text does not contain it, if it has another form."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise PostgresUrlError("expected a url, got a text of another form")
    part = found.groupdict()
    return Url(
        backend=part["scheme"].partition("+")[0],
        user=_plain(part["user"]),
        password=_plain(part["password"]),
        hosts=tuple(map(_host, part["hosts"].split(","))) if part["hosts"] else (),
        database=_plain(part["database"]),
        query=tuple(parse_qsl(part["query"] or "")),
    )


def _plain(quoted: str | None) -> str | None:
    return None if quoted is None else unquote(quoted)


def _host(text: str) -> tuple[str, int | None]:
    found = _HOST.fullmatch(text)
    if found is None or not (found["ipv6"] or found["name"]):
        raise PostgresUrlError("expected hosts such as db1:5432,db2, got a text of another form")
    return found["ipv6"] or unquote(found["name"]), int(found["port"]) if found["port"] else None


def postgres_address(url: Url) -> PostgresAddress:
    """The address that a url stands for. Raises PostgresUrlError."""
    options = dict(url.query)
    for name in options:
        if name not in _OPTIONS:
            raise PostgresUrlError(
                f"expected only {', '.join(_OPTIONS)} behind the ? of {url}, got {name}; leave it out"
            )
    for name, choices in _CHOICES.items():
        if options.get(name, choices[0]) not in choices:
            raise PostgresUrlError(
                f"expected {name} to be one of {', '.join(choices)} in {url}, got {options[name]}; correct it"
            )
    if not url.database:
        raise PostgresUrlError(f"expected a database in {url}, got none; name the database")
    tls = {name: value for name, value in options.items() if name == "sslmode" or name in _FILES}
    if tls.keys() & set(_FILES) and tls.get("sslmode") not in _CHECKED_MODES:
        raise PostgresUrlError(
            f"expected sslmode to be one of {', '.join(_CHECKED_MODES)} beside the certificates of {url},"
            f" got {tls.get('sslmode', 'none')}; add it"
        )
    place = {"user": url.user, "password": url.password, "database": url.database}
    connect = {name: value for name, value in place.items() if value is not None}
    if tls:
        connect["dsn"] = f"postgresql:///?{urlencode(tls)}"  # the driver takes files in a url alone
    return PostgresAddress(
        replace(url, backend="postgresql", query=()),
        connect,
        _seconds(options, url) or CONNECT_TIMEOUT / max(len(url.hosts), 1),
        must_write=options.get("target_session_attrs") != "any",
        application_name=options.get("application_name"),
        files={name: tls[name] for name in _FILES if name in tls},
    )


def _seconds(options: Mapping[str, str], url: Url) -> int:
    text = options.get("connect_timeout", "0")
    if not text.isdecimal() or ("connect_timeout" in options and not int(text)):
        raise PostgresUrlError(
            f"expected connect_timeout in whole seconds in {url}, got {text!r}; correct it"
        )
    return int(text)
