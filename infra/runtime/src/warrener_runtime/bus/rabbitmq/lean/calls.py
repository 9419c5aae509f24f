"""Calls of warrener_amqp with the bus's errors and time limit."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from warrener_amqp import AmqpError, ChannelRefused

RPC_SECONDS = 10.0  # seconds for a reply of the broker
DECLARE_SECONDS = 100.0
"""Seconds for a declaration. RabbitMQ 3.10 writes it to all nodes at once: while one of them is frozen, it
waits for `net_ticktime` (60 to 75 s by default), and a second try would wait behind the first."""
# The request is at fault, not the connection: no access, not found, exclusive to others, other properties.
_REQUEST_ERRORS = frozenset({403, 404, 405, 406})

T = TypeVar("T")


class BrokerConnectionLost(Exception):
    """The connection or the channel ended, or the broker refused a step; what was under way is uncertain."""


class RequestRefused(Exception):
    """The broker refuses a request, with a reason (403, 404, 405, 406)."""


@contextmanager
def translate_amqp_errors() -> Generator[None]:
    """Translate errors: refusals to RequestRefused, all others to BrokerConnectionLost."""
    try:
        yield
    except ChannelRefused as error:
        if error.code in _REQUEST_ERRORS:
            raise RequestRefused(f"{error.code}: {error.reason}") from error
        raise BrokerConnectionLost(str(error)) from error
    except TimeoutError as error:
        raise BrokerConnectionLost("the broker did not answer in time") from error
    except (AmqpError, OSError) as error:
        raise BrokerConnectionLost(str(error) or type(error).__name__) from error


async def with_timeout(call: Coroutine[Any, Any, T], seconds: float = RPC_SECONDS) -> T:
    """Await a call. Raises TimeoutError, and the errors of the call."""
    async with asyncio.timeout(seconds):
        return await call
