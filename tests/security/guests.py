"""Users of the broker who hold one role each, and messages that they lead past its permissions.

All users of a file share one virtual host, in which everything is declared, and the queues `etl` and
`payroll`.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from uuid import uuid4

from pamqp.commands import Basic
from pamqp.common import FieldValue
from tests.broker_access import channel_on
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.inbox import Inbox, ParkedEvent
from warrener_contracts.permissions import BrokerRole, Holder
from warrener_contracts.topology import TOPOLOGY, dispatch_queue
from warrener_runtime.bus import open_bus
from warrener_runtime.bus.types import Delivery

OWN, FOREIGN = "etl", "payroll"

_TOPOLOGY = TOPOLOGY.with_queues([dispatch_queue(OWN), dispatch_queue(FOREIGN)])
PIECES = frozenset(
    {
        *(f"exchange {one.name}" for one in _TOPOLOGY.exchanges),
        *(f"queue {one.name}" for one in _TOPOLOGY.queues),
        *(f"exchange amq.{name}" for name in ("default", "direct", "topic")),
    }
)
"""What is declared in a house."""


class House:
    """A virtual host with the whole topology, and its users by role."""

    def __init__(self, broker: RabbitMQServer, vhost_url: str) -> None:
        self._broker, self.url = broker, vhost_url
        self._users = dict[Holder, BrokerUser]()

    async def build(self) -> None:
        """Declare everything."""
        bus = open_bus(self.url, name="builder")
        await bus.start()
        await bus.declare(_TOPOLOGY)
        await bus.close()

    def user(
        self,
        role: BrokerRole,
        *,
        queues: tuple[str, ...] = (),
        job_types: tuple[str, ...] = (),
        child_types: tuple[str, ...] = (),
    ) -> BrokerUser:
        """The user who holds this role and nothing else."""
        holder = Holder(role, "guest", queues=queues, job_types=job_types, child_types=child_types)
        if holder not in self._users:
            self._users[holder] = BrokerUser(self._broker, self.url)
            self._users[holder].hold(holder)
        return self._users[holder]

    def close(self) -> None:
        for user in self._users.values():
            user.remove()


@contextmanager
def built_house(broker: RabbitMQServer) -> Generator[House]:
    """A house that is gone afterwards."""
    name = f"house-{uuid4().hex[:12]}"
    house = House(broker, broker.add_vhost(name))
    asyncio.run(house.build())
    yield house
    house.close()
    broker.drop_vhost(name)


async def smuggle(
    house: House, user: BrokerUser, queue: str, exchange: str, key: str, *, body: bytes
) -> None:
    """Let a message of a queue of one's own die into an exchange under any key."""
    grave: dict[str, FieldValue] = {
        "x-message-ttl": 0,
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-routing-key": key,
    }
    ping = f"warrener.ping.{uuid4().hex}"
    async with channel_on(user.url) as channel, channel_on(house.url) as owner:
        await channel.queue_declare(ping, exclusive=True, arguments=grave)
        await channel.queue_bind(ping, "amq.topic", ping)
        properties = Basic.Properties(content_type="application/cloudevents+json")
        await channel.basic_publish(body, exchange="amq.topic", routing_key=ping, properties=properties)
        while not (await owner.queue_declare(queue, passive=True)).message_count:
            pass  # each look is a call


async def refusals_of_messages(house: House, queue: str, inbox: Inbox) -> list[str]:
    """Take what waits in a queue, and read it as its service does; return why it takes none of it."""
    async with channel_on(house.url) as channel:
        found = await channel.basic_get(queue, no_ack=True)
    properties = found.header.properties
    where = found.delivery
    assert isinstance(where, Basic.GetOk)
    delivery = Delivery(
        found.body, where.routing_key or "", where.exchange, redelivered=False, tag=1, epoch=1
    )
    delivery = delivery._replace(content_type=properties.content_type, headers=properties.headers or {})
    [(_, elements)] = await inbox.read([delivery])
    assert all(isinstance(one, ParkedEvent) for one in elements), elements
    return [one.failure.detail for one in elements if isinstance(one, ParkedEvent)]


async def empty(house: House, queue: str) -> None:
    """Empty a queue for the next test."""
    async with channel_on(house.url) as channel:
        await channel.queue_purge(queue)
