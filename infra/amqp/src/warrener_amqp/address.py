"""The address of a broker: `amqp://user:password@host:port/vhost?heartbeat=10`, `amqps://` for TLS.

`amqp://user:password@host1:5672,host2,host3:5673/vhost` names several nodes of one cluster.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from warrener_amqp.handshake import ConnectionParams, Credentials

_FALSE = "0"


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed AMQP URL. Parameters have aiormq's names, so that one URL serves both."""

    host: str
    port: int
    credentials: Credentials
    params: ConnectionParams
    secure: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def tls(self) -> ssl.SSLContext | None:
        """Make the TLS context; None without TLS. Reads the files each time, because certificates are renewed
        in place.

        Raises OSError for a file that cannot be used.
        """
        if not self.secure:
            return None
        parameters = self.parameters
        context = ssl.create_default_context(
            cafile=parameters.get("cafile"), capath=parameters.get("capath"), cadata=parameters.get("cadata")
        )
        if "crlfile" in parameters:
            context.load_verify_locations(cafile=parameters["crlfile"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if "certfile" in parameters:
            context.load_cert_chain(parameters["certfile"], parameters.get("keyfile"))
        if parameters.get("no_verify_ssl", _FALSE) != _FALSE:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def with_name(self, name: str) -> "Address":
        """Set the connection's name for operators, unless the URL gives one."""
        return self if "name" in self.parameters else replace(self, params=replace(self.params, name=name))

    def __str__(self) -> str:
        """Host and port, without credentials."""
        return f"{self.host}:{self.port}"


def parse_addresses(url: str) -> list[Address]:
    """Parse an AMQP URL into the address of each host, in their order, as `parse_address` does."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return [_parse_host(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


def parse_address(url: str) -> Address:
    """Parse an AMQP URL; of several hosts, return the first. A ValueError says what was expected, without the
    password.

    Parameters: `name`, `heartbeat` (seconds; 0: none), `frame_max` (bytes), `channel_max`, `auth` (plain,
    external); for amqps `cafile`, `capath`, `cadata`, `crlfile` (of revoked certificates), `certfile`,
    `keyfile`, `no_verify_ssl`. No path, or `/`, is the virtual host "/".
    """
    return parse_addresses(url)[0]


def _parse_host(parts: SplitResult) -> Address:
    if parts.scheme not in {"amqp", "amqps"} or not parts.hostname:
        raise ValueError(f"expected amqp://host or amqps://host, got a URL that begins with {parts.scheme!r}")
    parameters = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    secure = parts.scheme == "amqps"
    return Address(
        host=parts.hostname,
        port=parts.port or (5671 if secure else 5672),
        credentials=_credentials(parts.username, parts.password, parameters.get("auth", "plain").lower()),
        params=ConnectionParams(
            virtual_host=unquote(parts.path[1:]) or "/",
            name=parameters.get("name", ConnectionParams().name),
            heartbeat=_number(parameters, "heartbeat", 10, minimum=0),
            frame_max=_number(parameters, "frame_max", 131_072, minimum=4096),
            channel_max=_number(parameters, "channel_max", 2047, minimum=1),
        ),
        secure=secure,
        parameters=parameters,
    )


def _credentials(user: str | None, password: str | None, kind: str) -> Credentials:
    if kind == "external":
        return Credentials()
    if kind != "plain":
        raise ValueError(f"expected auth=plain or auth=external, got {kind!r}")
    return Credentials(
        "guest" if user is None else unquote(user), "guest" if password is None else unquote(password)
    )


def _number(parameters: Mapping[str, str], key: str, default: int, *, minimum: int) -> int:
    text = parameters.get(key, str(default))
    if not text.isdecimal() or int(text) < minimum:
        raise ValueError(
            f"expected a whole number of at least {minimum} for {key} in the broker's URL, got {text!r}"
        )
    return int(text)
