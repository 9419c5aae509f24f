"""AMQP 0-9-1 for the hot queues: a sans-IO core (bytes in, events out) under a thin asyncio transport.

`Connection` is the core: no socket, no clock. `Transport` gives it both and joins the frames of a loop turn
into one write. Tasks use `Session` and `Channel`. Four methods are coded by hand (deliver, publish, confirm,
acknowledge), all others by pamqp.
"""

from warrener_amqp.address import Address, parse_address, parse_addresses
from warrener_amqp.channel import Channel, ChannelListener
from warrener_amqp.connection import Connection
from warrener_amqp.errors import (
    AmqpError,
    AuthenticationRefused,
    ChannelGone,
    ChannelRefused,
    ConnectionLost,
    FrameMalformed,
    ProtocolViolated,
)
from warrener_amqp.events import (
    AmqpEvent,
    Blocked,
    ChannelClosed,
    Closed,
    Confirmed,
    ConnectionFailed,
    ConsumerCancelled,
    Delivered,
    Opened,
    PublishReturned,
    Replied,
    Unblocked,
)
from warrener_amqp.handshake import ConnectionParams, Credentials
from warrener_amqp.properties import Properties
from warrener_amqp.session import Session, open_session

__all__ = [
    "Address",
    "AmqpError",
    "AmqpEvent",
    "AuthenticationRefused",
    "Blocked",
    "Channel",
    "ChannelClosed",
    "ChannelGone",
    "ChannelListener",
    "ChannelRefused",
    "Closed",
    "Confirmed",
    "Connection",
    "ConnectionFailed",
    "ConnectionLost",
    "ConnectionParams",
    "ConsumerCancelled",
    "Credentials",
    "Delivered",
    "FrameMalformed",
    "Opened",
    "Properties",
    "ProtocolViolated",
    "PublishReturned",
    "Replied",
    "Session",
    "Unblocked",
    "open_session",
    "parse_address",
    "parse_addresses",
]
