"""Sessions on a real broker, closed at the end of the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from warrener_amqp.address import parse_address
from warrener_amqp.session import Session

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
