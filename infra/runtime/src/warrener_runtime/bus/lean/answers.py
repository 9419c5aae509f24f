"""How long the broker may take to answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from warrener_runtime.bus.rabbit.wire import RPC_SECONDS

T = TypeVar("T")


async def answered(call: Coroutine[Any, Any, T]) -> T:
    """The answer. Raises TimeoutError, and what the call raises."""
    async with asyncio.timeout(RPC_SECONDS):
        return await call
