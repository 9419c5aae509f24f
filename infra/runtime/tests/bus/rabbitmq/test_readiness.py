"""Readiness names an alarm of the broker, and a permission that is taken away, until they end."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.conformance.bus_rigs import make_message
from tests.faults.broker_alarms import low_on_memory
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE, TOPOLOGY
from warrener_runtime import health
from warrener_runtime.bus import Bus, BusUnreachable, PublishResult, open_bus
from warrener_runtime.bus.namespace import NameMapper
from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry

MAPPER = NameMapper("jobs2")
OURS = r"^warrener\."


@pytest.fixture
def user(broker: RabbitMQServer, vhost_url: str) -> Iterator[BrokerUser]:
    one = BrokerUser(broker, vhost_url)
    yield one
    one.remove()


@pytest.fixture
async def registry() -> HealthRegistry:
    one = HealthRegistry()
    current_health_registry.set(one)
    return one


@pytest.fixture
async def bus(user: BrokerUser, registry: HealthRegistry) -> AsyncIterator[Bus]:
    """A bus of that user, to which nothing is refused yet."""
    assert registry is current_health_registry.get()
    one = open_bus(user.url, name="refused")
    await one.start()
    await one.declare(TOPOLOGY)
    yield one
    await one.close()


async def trouble_now(registry: HealthRegistry) -> str | None:
    try:
        await registry.checks["broker access"]()
    except NotReady as wrong:
        return str(wrong)
    return None


async def trouble(registry: HealthRegistry) -> str:
    """Wait until readiness says what is refused."""
    while (wrong := await trouble_now(registry)) is None:  # noqa: ASYNC110 - readiness is polled
        await asyncio.sleep(0)
    return wrong


def grant_as_advised(user: BrokerUser, sentence: str) -> None:
    """Set the permissions that the sentence advises, `OURS` being those that the user has."""
    words = shlex.split(sentence.partition("run `")[2].partition("`")[0])
    user.permit(*(re.sub("CONFIGURE|WRITE|READ", lambda _: OURS, word) for word in words[5:]))
    assert words[:5] == ["rabbitmqctl", "set_permissions", "-p", user.vhost, user.name]


async def test_a_service_is_not_ready_while_the_broker_takes_no_messages(
    own_rabbitmq: RabbitMQServer, registry: HealthRegistry
) -> None:
    bus = open_bus(own_rabbitmq.url, name="test")
    await bus.start()
    message = make_message("a", key="nobody", exchange="amq.topic", mandatory=False)
    try:
        await bus.publish([message])
        assert await trouble_now(registry) is None
        assert "broker" not in registry.checks, "the ping of services has this name, and would be replaced"
        with low_on_memory(own_rabbitmq):
            while (wrong := await trouble_now(registry)) is None:
                await bus.publish([message], timeout=1)
            assert wrong == "the broker takes no messages: low on memory; see `rabbitmq-diagnostics alarms`"
        while await trouble_now(registry) is not None:
            await bus.publish([message], timeout=1)
    finally:
        await bus.close()
    assert not registry.checks


async def test_a_queue_that_may_not_be_read_is_named_until_the_advice_is_followed(
    bus: Bus, user: BrokerUser, registry: HealthRegistry
) -> None:
    user.permit(read="^$")
    subscription = await bus.subscribe(REQUESTS_QUEUE.name, prefetch=1)
    wrong = await trouble(registry)
    assert wrong.startswith("expected the permission to read queue warrener.requests")
    grant_as_advised(user, wrong)
    await bus.publish([make_message("a", key="loading", exchange=REQUESTS)])
    [delivery] = await anext(aiter(subscription))
    assert delivery.message_id == "a"


@pytest.mark.parametrize("exchange", [REQUESTS, ""])
async def test_an_exchange_that_may_not_be_written_is_named_until_the_advice_is_followed(
    bus: Bus, user: BrokerUser, registry: HealthRegistry, exchange: str
) -> None:
    message = make_message("a", key=REQUESTS_QUEUE.name, exchange=exchange)
    other = make_message("b", key=REQUESTS_QUEUE.name, exchange="" if exchange else REQUESTS)
    user.permit(write=r"^amq\.default$" if exchange else OURS)
    while await bus.publish([message], timeout=5) != [PublishResult.REFUSED]:
        pass  # a channel remembers what it may
    assert await bus.publish([other], timeout=5) == [PublishResult.CONFIRMED], "the others go on"
    wrong = await trouble(registry)
    named = exchange or "amq.default"
    assert f"permission to write exchange {named} for user {user.name}, got ACCESS_REFUSED" in wrong
    grant_as_advised(user, wrong)
    while await bus.publish([message], timeout=5) != [PublishResult.CONFIRMED]:
        pass


async def test_a_routing_key_that_may_not_be_published_needs_a_permission_of_its_exchange(
    bus: Bus, user: BrokerUser, registry: HealthRegistry
) -> None:
    user.permit_keys(REQUESTS, "^billing$")
    message = make_message("a", key="loading", exchange=REQUESTS)
    assert await bus.publish([message], timeout=5) == [PublishResult.REFUSED]
    wrong = await trouble(registry)
    assert f"`rabbitmqctl set_topic_permissions -p {user.vhost} {user.name} {REQUESTS} WRITE READ`" in wrong


async def test_a_ping_that_is_refused_fails_with_the_reason(
    bus: Bus, user: BrokerUser, registry: HealthRegistry
) -> None:
    user.permit(write=OURS)
    with pytest.raises(BusUnreachable, match="ACCESS_REFUSED"):
        await bus.ping(timeout=60)
    assert "exchange amq.topic" in await trouble(registry)


def test_a_refusal_of_version_4_is_read_too_and_forgotten_once_nobody_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(health, "monotonic", lambda: now)
    found = health.Refusals()
    found.note("read", "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN", MAPPER)
    assert not found.current()
    text = "ACCESS_REFUSED - read access to queue 'jobs2.status' in vhost '/' refused for user 'o clock'"
    found.note("read", text, MAPPER)
    assert list(found.current()) == ["queue warrener.status"]
    granting = r"set_permissions -p / 'o clock' CONFIGURE WRITE 'READ|^jobs2\.status$'`"
    assert granting in found.current()["queue warrener.status"], "nothing but that queue"
    now = 21.0
    assert not found.current()
