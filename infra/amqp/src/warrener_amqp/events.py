"""Events of the core, made from received bytes.

Events that come with every message are named tuples: a frozen dataclass takes three times as long to make.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pamqp.base import Frame as Method

from warrener_amqp.errors import AmqpError
from warrener_amqp.properties import Properties


@dataclass(frozen=True, slots=True)
class Opened:
    """The handshake is done; heartbeats are due every `heartbeat` seconds both ways (0: none)."""

    heartbeat: int
    frame_max: int
    channel_max: int
    server: Mapping[str, object]


class Delivered(NamedTuple):
    """A whole message for a consumer."""

    channel: int
    consumer: str
    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class PublishReturned(NamedTuple):
    """A mandatory message without a bound queue; its confirm follows."""

    channel: int
    code: int
    reason: str
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class Confirmed(NamedTuple):
    """The broker has stored (`positive`) or refuses a publish, and with `multiple` all before it."""

    channel: int
    tag: int
    multiple: bool
    positive: bool


@dataclass(frozen=True, slots=True)
class Replied:
    """The reply to a call; a channel's replies come in the order of its calls."""

    channel: int
    method: Method


@dataclass(frozen=True, slots=True)
class ConsumerCancelled:
    """The broker ended this consumer: its queue is gone, or an acknowledgement took too long."""

    channel: int
    consumer: str


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The broker closed a channel. Its deliveries go back; its publishes are uncertain."""

    channel: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The broker confirmed our Connection.Close."""


@dataclass(frozen=True, slots=True)
class ConnectionFailed:
    """The connection is dead: the broker closed it, or sent malformed data. The last event."""

    error: AmqpError


@dataclass(frozen=True, slots=True)
class Blocked:
    """The broker is short of memory or disk and reads no publishes until Unblocked."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unblocked:
    """The broker reads publishes again."""


AmqpEvent = (
    Opened
    | Delivered
    | PublishReturned
    | Confirmed
    | Replied
    | ConsumerCancelled
    | ChannelClosed
    | Closed
    | ConnectionFailed
    | Blocked
    | Unblocked
)
