"""What the core tells: the events that bytes turn into.

They are named tuples where there is one for every message, because a frozen dataclass costs three times as
much to make.
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
    """A message for a consumer, whole."""

    channel: int
    consumer: str
    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class PublishReturned(NamedTuple):
    """A mandatory message that no queue is bound for; its confirm comes after it."""

    channel: int
    code: int
    reason: str
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class Confirmed(NamedTuple):
    """The broker has (`positive`) or refuses this publish, and with `multiple` all before it too."""

    channel: int
    tag: int
    multiple: bool
    positive: bool


@dataclass(frozen=True, slots=True)
class Replied:
    """The answer to a call; answers come in the order of the calls of a channel."""

    channel: int
    method: Method


@dataclass(frozen=True, slots=True)
class ConsumerCancelled:
    """The broker has ended this consumer: its queue is gone, or it took too long to acknowledge."""

    channel: int
    consumer: str


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The broker has closed a channel. Its deliveries go back, its publishes are uncertain."""

    channel: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The broker has agreed to our closing the connection."""


@dataclass(frozen=True, slots=True)
class ConnectionFailed:
    """The connection is dead: the broker closed it, or said what cannot be understood. Nothing comes
    after."""

    error: AmqpError


@dataclass(frozen=True, slots=True)
class Blocked:
    """The broker is short of memory or disk: it reads no publishes until it says Unblocked."""

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
