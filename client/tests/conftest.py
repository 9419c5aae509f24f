"""The client's tests run on the broker in memory and on RabbitMQ, by their fixture `buses`."""

from collections.abc import AsyncIterator, Callable

import pytest

from warrener_client import Client
from warrener_runtime.bus import Bus
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus


@pytest.fixture(params=["memory", "rabbitmq"])
def new_bus(request: pytest.FixtureRequest) -> Callable[[], Bus]:
    """Makes connections to one broker with nothing declared."""
    if request.param == "memory":
        broker = MemoryBroker()
        return lambda: MemoryBus(broker)
    url: str = request.getfixturevalue("vhost_url")
    from warrener_runtime.bus import open_bus  # noqa: PLC0415 - the memory tests do without RabbitMQ's client

    return lambda: open_bus(url, name="test")


@pytest.fixture
async def client(new_bus: Callable[[], Bus]) -> AsyncIterator[Client]:
    async with Client(bus=new_bus()) as opened:
        yield opened
