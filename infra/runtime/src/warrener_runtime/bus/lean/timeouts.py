"""How long the broker may take to answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from warrener_runtime.bus.rabbit.broker_client import RPC_SECONDS

T = TypeVar("T")


async def with_timeout(call: Coroutine[Any, Any, T]) -> T:
    """The answer. Raises TimeoutError, and what the call raises."""
    async with asyncio.timeout(RPC_SECONDS):
        return await call
