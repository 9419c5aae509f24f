"""Calls of warrener_amqp with the bus's errors and time limit."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from warrener_amqp import AmqpError, ChannelRefused
from warrener_runtime.bus.rabbitmq.client import RPC_SECONDS, BrokerConnectionLost, RequestRefused

# The request is at fault, not the connection: no access, not found, exclusive to others, other properties.
_REQUEST_ERRORS = frozenset({403, 404, 405, 406})

T = TypeVar("T")


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
