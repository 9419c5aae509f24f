"""Methods that are not hot: pamqp reads them."""

import struct

from pamqp import exceptions
from pamqp import frame as pamqp_frame
from pamqp.base import Frame as Method

from warrener_amqp.errors import FrameMalformed
from warrener_amqp.framing import METHOD, frame

_UNREADABLE = (
    exceptions.UnmarshalingException,
    ArithmeticError,
    AttributeError,
    DeprecationWarning,  # of methods that brokers do not send, where warnings are errors
    LookupError,
    OSError,
    RecursionError,  # a table may be nested deeper than Python's stack
    TypeError,
    ValueError,
    struct.error,
)


def read_method(payload: bytes) -> Method:
    """The method of a method frame. Raises FrameMalformed."""
    try:
        _, _, method = pamqp_frame.unmarshal(frame(METHOD, 0, payload))
    except _UNREADABLE as error:
        raise FrameMalformed(f"expected a method of AMQP 0-9-1, got {payload[:40]!r}") from error
    if not isinstance(method, Method):
        raise FrameMalformed(f"expected a method of AMQP 0-9-1, got {payload[:40]!r}")
    return method
