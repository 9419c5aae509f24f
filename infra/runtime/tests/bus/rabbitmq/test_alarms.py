"""The readiness of a publisher names an alarm of the broker, until the alarm ends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conformance.bus_rigs import make_message

from warrener_devservers import PrivateRabbitMQ, ServerMissing
from warrener_runtime.bus import open_bus
from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry

_MEMORY = "vm_memory_monitor:set_vm_memory_high_watermark({}), ok."


@pytest.fixture(scope="module")
def node(server_folders: Callable[[str], Path]) -> Iterator[PrivateRabbitMQ]:
    """A node whose limits may be changed."""
    try:
        node = PrivateRabbitMQ(server_folders("alarms"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    node.start()
    yield node
    node.remove()


async def trouble(registry: HealthRegistry) -> str | None:
    try:
        await registry.checks["broker"]()
    except NotReady as wrong:
        return str(wrong)
    return None


async def test_a_service_is_not_ready_while_the_broker_takes_no_messages(node: PrivateRabbitMQ) -> None:
    registry = HealthRegistry()
    current_health_registry.set(registry)
    bus = open_bus(node.url, name="test")
    await bus.start()
    message = make_message("a", key="nobody", exchange="amq.topic", mandatory=False)
    try:
        await bus.publish([message])
        assert await trouble(registry) is None
        node.evaluate(_MEMORY.format("0.000001"))
        while (wrong := await trouble(registry)) is None:
            await bus.publish([message], timeout=1)
        assert wrong == "the broker takes no messages: low on memory; see `rabbitmq-diagnostics alarms`"
        node.evaluate(_MEMORY.format("0.4"))
        while await trouble(registry) is not None:
            await bus.publish([message], timeout=1)
    finally:
        node.evaluate(_MEMORY.format("0.4"))
        await bus.close()
    assert "broker" not in registry.checks
