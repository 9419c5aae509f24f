"""Urls of databases taken apart and put together, as everybody writes them. Pure."""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote

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
    """`backend+driver://user:password@host:port/database?name=value`. A password may hold what else would
    divide (`/`, `?`, `:`), but for the `@`; that and any other may be written as `%40`."""

    backend: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    database: str | None = None
    query: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """For people: a password is never shown."""
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
    """Read a url; raises ValueError, which says nothing of it, where it has another form."""
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
