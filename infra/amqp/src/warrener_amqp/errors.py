"""Errors of this package.

AmqpError
├── ChannelRefused         the broker closed a channel over a request; the connection stays open
├── ChannelGone            the channel was closed before; requests without a reply are uncertain
├── FrameMalformed         bytes that are no AMQP frame; the connection ends
├── ProtocolViolated       a frame that may not come now, or a call that may not be made now
├── AuthenticationRefused  the broker refuses this user, password or virtual host
└── ConnectionLost         the connection is gone; unconfirmed publishes are uncertain
"""

from ssl import SSLCertVerificationError, SSLError


class AmqpError(Exception):
    """The base of all errors of this package."""


class ChannelRefused(AmqpError):
    """The broker closed the channel over a request: 403, 404, 405, 406 and others."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"expected the broker to accept the request, got {code}: {reason}")
        self.code = code
        self.reason = reason


class ChannelGone(AmqpError):
    """The channel was closed before."""


class FrameMalformed(AmqpError):
    """Bytes that are no AMQP frame."""


class ProtocolViolated(AmqpError):
    """A frame or a call that is not allowed in this state."""


class AuthenticationRefused(AmqpError):
    """The broker refuses us, with a reason or by closing the socket. Waiting will not help."""


class ConnectionLost(AmqpError):
    """The connection is gone."""


def describe_tls_error(error: BaseException | None, where: object) -> str | None:
    """Say whose certificate the handshake at `where` failed over, and why; None for any other error."""
    while error is not None and not isinstance(error, SSLError):
        error = error.__cause__
    if isinstance(error, SSLCertVerificationError):
        why = error.verify_message.rstrip(".")
        remedy = "correct it, or cafile, crlfile or the host of the URL"
        return f"expected a valid certificate of the broker at {where}, got one that fails: {why}; {remedy}"
    if error is None:
        return None
    alert = (error.reason or str(error)).rpartition("ALERT_")[2].replace("_", " ").lower()
    expected = f"expected the broker at {where} to accept this client's certificate"
    return f"{expected}, got {alert!r}; correct certfile and keyfile of the URL"
