"""What warrener_amqp raises, in the bus's words."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from warrener_amqp import AmqpError, ChannelRefused
from warrener_runtime.bus.rabbitmq.client import RPC_SECONDS, BrokerConnectionLost, RequestRefused

# What is wrong is the request, not the connection: access, no such thing, somebody else's, other properties.
_REQUEST_ERRORS = frozenset({403, 404, 405, 406})


@contextmanager
def translate_amqp_errors() -> Generator[None]:
    """Turn what a lost connection causes into LinkLost, and a refusal into Refused."""
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


T = TypeVar("T")


async def with_timeout(call: Coroutine[Any, Any, T]) -> T:
    """The answer. Raises TimeoutError, and what the call raises."""
    async with asyncio.timeout(RPC_SECONDS):
        return await call
