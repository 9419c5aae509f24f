"""Sessions on a real broker, closed at the end of the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from warrener_amqp import Session, parse_address

OpenSession = Callable[[str], Awaitable[Session]]


@pytest.fixture
async def open_session() -> AsyncIterator[OpenSession]:
    async with AsyncExitStack() as closing:

        async def opened(url: str) -> Session:
            session = Session(parse_address(url))
            closing.push_async_callback(session.close)
            await session.open()
            return session

        yield opened
