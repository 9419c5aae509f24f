"""The readiness of a publisher names an alarm of the broker, until the alarm ends."""

from tests.conformance.bus_rigs import make_message
from tests.faults.broker_alarms import low_on_memory
from tests.servers.kinds import RabbitMQServer

from warrener_runtime.bus import open_bus
from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry


async def trouble(registry: HealthRegistry) -> str | None:
    try:
        await registry.checks["broker access"]()
    except NotReady as wrong:
        return str(wrong)
    return None


async def test_a_service_is_not_ready_while_the_broker_takes_no_messages(
    own_rabbitmq: RabbitMQServer,
) -> None:
    registry = HealthRegistry()
    current_health_registry.set(registry)
    bus = open_bus(own_rabbitmq.url, name="test")
    await bus.start()
    message = make_message("a", key="nobody", exchange="amq.topic", mandatory=False)
    try:
        await bus.publish([message])
        assert await trouble(registry) is None
        assert "broker" not in registry.checks, "the ping of services has this name, and would be replaced"
        with low_on_memory(own_rabbitmq):
            while (wrong := await trouble(registry)) is None:
                await bus.publish([message], timeout=1)
            assert wrong == "the broker takes no messages: low on memory; see `rabbitmq-diagnostics alarms`"
        while await trouble(registry) is not None:
            await bus.publish([message], timeout=1)
    finally:
        await bus.close()
    assert not registry.checks
