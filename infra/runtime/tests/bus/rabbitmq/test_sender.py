"""Messages name the broker's user that sends them; the broker refuses another one."""

from contextlib import AsyncExitStack

import pytest
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.messages import Message
from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_runtime.bus import PublishResult, open_bus
from warrener_runtime.settings import ServiceSettings

ALL = Topology((Exchange("sent"),), (Queue("all", (Binding("sent", "#"),), {"x-queue-type": "quorum"}),))


async def test_messages_name_the_user_of_the_setting_and_the_log_names_the_setting_if_the_broker_differs(
    vhost_url: str, broker: RabbitMQServer, capsys: pytest.CaptureFixture[str]
) -> None:
    user = BrokerUser(broker, vhost_url)
    message = Message("sent", "key", b"{}", "application/json", "1", "test", {})
    async with AsyncExitStack() as opened:
        for name, expected in ((user.name, PublishResult.CONFIRMED), ("a token's", PublishResult.UNKNOWN)):
            bus = open_bus(user.url, name="named", user_id=name)
            await bus.start()
            opened.push_async_callback(bus.close)
            await bus.declare(ALL)
            assert await bus.publish([message]) == [expected]
        assert "WARRENER_BROKER_USER" in capsys.readouterr().err
        async for [delivery] in await bus.subscribe("all", prefetch=1):
            assert delivery.user_id == user.name
            break
    user.remove()


@pytest.mark.parametrize(
    ("url", "broker_user", "sender"),
    [
        ("amqp://load%40er:secret@one,two:5673/v", None, "load@er"),
        ("amqp://host/", None, None),
        ("amqps://ignored@host/?auth=external", None, None),
        ("amqps://host/?auth=external", "CN=loader", "CN=loader"),
        ("amqp://loader:secret@host/", "", None),
    ],
)
def test_the_sender_is_the_user_of_the_url_or_of_the_setting(
    url: str, broker_user: str | None, sender: str | None
) -> None:
    assert ServiceSettings(broker_url=url, broker_user=broker_user).sender == sender


def test_the_sender_at_another_broker_is_the_user_of_its_url_unless_nobody_is_named() -> None:
    other = "amqp://ann:secret@other/"
    assert ServiceSettings(broker_url="amqp://host/", broker_user="ben").sender_at(other) == "ann"
    assert ServiceSettings(broker_url="amqp://host/", broker_user="").sender_at(other) is None
