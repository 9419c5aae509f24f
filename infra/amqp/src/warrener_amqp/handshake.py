"""The handshake, from the protocol header to Connection.OpenOk: credentials, and the smaller of both
limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from importlib.metadata import version
from typing import cast

from pamqp import commands
from pamqp.base import Frame as Method

from warrener_amqp.errors import AmqpError, AuthenticationRefused, ConnectionLost, ProtocolViolated
from warrener_amqp.events import Opened
from warrener_amqp.framing import FRAME_MIN


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password; use TLS on networks that others can read. Without a user: the certificate of the
    TLS connection (plugin rabbitmq_auth_mechanism_ssl)."""

    user: str | None = None
    password: str = field(default="", repr=False)

    @property
    def mechanism(self) -> str:
        """The SASL mechanism, as the broker lists it."""
        return "EXTERNAL" if self.user is None else "PLAIN"

    @property
    def description(self) -> str:
        """The identity, for messages."""
        return "the user of the certificate" if self.user is None else f"user {self.user!r}"

    def response(self) -> str:
        """The response in Connection.StartOk (RFC 4616); none for a certificate, which is enough."""
        return "" if self.user is None else f"\0{self.user}\0{self.password}"


PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

# Without these the broker closes the connection where it could give a reason.
_CAPABILITIES: dict[str, bool] = {
    "publisher_confirms": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}

_ACCESS_REFUSED, _NOT_ALLOWED = 403, 530


class Stage(Enum):
    """The method that the broker sends next."""

    START = auto()
    TUNE = auto()
    OPEN_OK = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class ConnectionParams:
    """Our side of the negotiation; the broker may lower the limits."""

    virtual_host: str = "/"
    name: str = "warrener"
    heartbeat: int = 10  # seconds; 0: none
    frame_max: int = 131_072
    channel_max: int = 2047


class Handshake:
    """Replies to each step of the broker."""

    def __init__(self, credentials: Credentials, params: ConnectionParams) -> None:
        self._credentials = credentials
        self._params = params
        self.negotiated = Opened(0, FRAME_MIN, 1, {})

    def start(self, method: Method) -> list[Method]:
        """Reply to Connection.Start with credentials, by a mechanism that the broker knows."""
        if not isinstance(method, commands.Connection.Start):
            raise ProtocolViolated(f"expected Connection.Start, got {method.name}")
        offered = str(method.mechanisms).split()
        mechanism = self._credentials.mechanism
        if mechanism not in offered:
            raise AuthenticationRefused(
                f"expected a broker that takes {mechanism}, got one that takes {', '.join(offered)};"
                " use one of these, or enable the plugin"
            )
        self.negotiated = Opened(0, FRAME_MIN, 1, cast("dict[str, object]", method.server_properties or {}))
        ours = {
            "product": "warrener",
            "version": _our_version(),
            "connection_name": self._params.name,
            "capabilities": _CAPABILITIES,
        }
        return [
            commands.Connection.StartOk(
                client_properties=ours,  # type: ignore[arg-type] # pamqp's table type is invariant
                mechanism=mechanism,
                response=self._credentials.response(),
                locale="en_US",
            )
        ]

    def tune(self, method: Method) -> list[Method]:
        """Reply to Connection.Tune with the smaller limits, and open the virtual host."""
        if not isinstance(method, commands.Connection.Tune):
            raise ProtocolViolated(f"expected Connection.Tune, got {method.name}")
        self.negotiated = Opened(
            heartbeat=_smaller(self._params.heartbeat, int(method.heartbeat or 0)),
            frame_max=max(FRAME_MIN, _smaller(self._params.frame_max, int(method.frame_max or 0))),
            channel_max=_smaller(self._params.channel_max, int(method.channel_max or 0)),
            server=self.negotiated.server,
        )
        return [
            commands.Connection.TuneOk(
                channel_max=self.negotiated.channel_max,
                frame_max=self.negotiated.frame_max,
                heartbeat=self.negotiated.heartbeat,
            ),
            commands.Connection.Open(virtual_host=self._params.virtual_host),
        ]

    def server_supports(self, capability: str) -> bool:
        """True if the broker has announced the capability."""
        capabilities = self.negotiated.server.get("capabilities")
        return (
            isinstance(capabilities, Mapping)
            and cast("Mapping[str, object]", capabilities).get(capability) is True
        )


def closing_error(stage: Stage, code: int, reason: str) -> AmqpError:
    """Choose the error for a connection that the broker closed at this stage."""
    refused = code == _ACCESS_REFUSED or (
        # Also sent for passing conditions: too many connections, a node in maintenance.
        code == _NOT_ALLOWED and any(word in reason for word in ("not found", "refused"))
    )
    if refused and stage in {Stage.TUNE, Stage.OPEN_OK}:
        return AuthenticationRefused(f"expected to be let in, got {code}: {reason}")
    return ConnectionLost(f"expected the connection to last, got {code}: {reason}")


@cache
def _our_version() -> str:
    return version("warrener-amqp")


def _smaller(ours: int, theirs: int) -> int:
    """Return the smaller limit; 0 means none, on both sides."""
    return min(ours, theirs) if ours and theirs else ours or theirs
