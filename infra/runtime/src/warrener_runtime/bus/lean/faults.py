"""What warrener_amqp raises, in the bus's words."""

from collections.abc import Generator
from contextlib import contextmanager

from warrener_amqp import AmqpError, ChannelRefused
from warrener_runtime.bus.rabbit.wire import LinkLost, Refused

# What is wrong is the request, not the connection: access, no such thing, somebody else's, other properties.
_OF_THE_REQUEST = frozenset({403, 404, 405, 406})


@contextmanager
def lean_faults() -> Generator[None]:
    """Turn what a lost connection causes into LinkLost, and a refusal into Refused."""
    try:
        yield
    except ChannelRefused as error:
        if error.code in _OF_THE_REQUEST:
            raise Refused(f"{error.code}: {error.reason}") from error
        raise LinkLost(str(error)) from error
    except TimeoutError as error:
        raise LinkLost("the broker did not answer in time") from error
    except (AmqpError, OSError) as error:
        raise LinkLost(str(error) or type(error).__name__) from error
