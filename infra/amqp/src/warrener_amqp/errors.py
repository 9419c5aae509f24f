"""What can go wrong.

AmqpError
├── ChannelRefused         the broker closed a channel over what was asked of it; the connection goes on
├── ChannelGone            the channel was closed before; what was not answered on it is uncertain
├── FrameMalformed         bytes that are no AMQP frame: the connection cannot go on
├── ProtocolViolated       a frame that may not come now, or a call that may not be made now
├── AuthenticationRefused  the broker does not let this user, password or virtual host in
└── ConnectionLost         the connection is gone; what was not confirmed is uncertain
"""


class AmqpError(Exception):
    """The root of what this package raises."""


class ChannelRefused(AmqpError):
    """The broker has closed the channel over what was asked of it: 403, 404, 405, 406 and others."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"expected the broker to do what was asked, got {code}: {reason}")
        self.code = code
        self.reason = reason


class ChannelGone(AmqpError):
    """The channel is closed already."""


class FrameMalformed(AmqpError):
    """Bytes that are no AMQP frame."""


class ProtocolViolated(AmqpError):
    """A frame or a call that may not come in this state."""


class AuthenticationRefused(AmqpError):
    """The broker does not let us in, and says why or hangs up. Waiting will not help."""


class ConnectionLost(AmqpError):
    """The connection is gone."""
