"""Live pages on a real broker: an event is on the page, an interruption is shown and ended, and a bad name in
the address of a page takes the counts of no other queue away."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import aiormq
import pytest
from tests.broker_access import channel_on
from tests.faults.raw_messages import TIME_AFTER_9999, RawMessage, publish_raw
from tests.faults.tcp_proxy import TcpProxy
from tests.servers.kinds import RabbitMQServer

from warrener.context import ResolvedEndpoints
from warrener.operations.roles import Role
from warrener.operations.system import SharedInspector
from warrener.web.live.event_consumer import EventConsumer
from warrener.web.live.hub import Hub, LiveContent, LiveKey, Viewer

KEY = LiveKey("/jobs", Role.VIEWER, "UTC")


class Stage:
    """An open page that shows how often it was rendered, and the hub and the consumer behind it."""

    def __init__(self, url: str, namespace: str) -> None:
        self._renderings = 0
        self.hub = Hub(self._render, viewer_limit=1, principal_limit=1, interval=0.0)
        self.consumer = EventConsumer(url, namespace=namespace, hub=self.hub)
        self.viewer: Viewer

    async def _render(self, _: LiveKey) -> LiveContent:
        self._renderings += 1
        return LiveContent(html=f"rendering {self._renderings}", topics=["jobs"], refresh=None)

    async def until(self, wanted: str) -> str:
        """Read the stream of the page until this text is in it."""
        async with asyncio.timeout(60):
            while wanted.encode() not in (text := await self.viewer.take() or b""):
                pass
        return text.decode()


@asynccontextmanager
async def watched(url: str, namespace: str = "warrener") -> AsyncGenerator[Stage]:
    """An open page that receives the events of this broker."""
    stage = Stage(url, namespace)
    await stage.hub.start()
    await stage.consumer.start()
    try:
        stage.viewer = stage.hub.join(KEY, "ada")
        yield stage
    finally:
        await stage.consumer.stop()
        await stage.hub.stop()


@pytest.fixture
async def proxy(broker: RabbitMQServer) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(broker.port)
    await proxy.start()
    yield proxy
    await proxy.stop()


async def publish(url: str, key: str, exchange: str = "warrener.events") -> None:
    async with channel_on(url) as channel:
        await channel.basic_publish(b"{}", exchange=exchange, routing_key=key)


async def test_an_event_of_the_namespace_is_on_the_page_even_if_it_cannot_be_decoded(vhost_url: str) -> None:
    async with watched(vhost_url) as plain, watched(vhost_url, "shop") as shop:
        for stage in (plain, shop):
            await stage.until("rendering 2")  # the first, and that of the connection
        await publish(vhost_url, "reply.someone")
        await publish(vhost_url, "job.dead.mail.send", exchange="shop.events")
        await publish(vhost_url, "job.finished.succeeded.mail.send")
        await plain.until("rendering 3")
        await shop.until("rendering 3")
        key = "job.finished.succeeded.mail.send"
        await publish_raw(vhost_url, [RawMessage("warrener.events", key, TIME_AFTER_9999, b"poison")])
        await plain.until("rendering 4")
        counts = (plain.consumer.received_count, shop.consumer.received_count)
        assert counts == (2, 1), "expected neither replies nor events of another namespace"


async def test_an_interruption_is_shown_until_events_arrive_again(vhost_url: str, proxy: TcpProxy) -> None:
    vhost = vhost_url.rpartition("/")[2]
    async with watched(f"amqp://guest:guest@127.0.0.1:{proxy.port}/{vhost}") as stage:
        await stage.until("rendering 2")
        await proxy.stop()
        assert "data: 20" in await stage.until("event: interrupted")
        await proxy.start()
        await stage.until("event: live")
        await publish(vhost_url, "job.dead.mail.send")
        await stage.until("rendering 4")  # the third is that of the new connection


async def test_without_open_pages_nothing_is_consumed(vhost_url: str) -> None:
    stage = Stage(vhost_url, "warrener")
    await stage.consumer.start()
    viewer = stage.hub.join(KEY, "ada")
    stage.hub.leave(KEY, viewer)
    await stage.consumer.stop()
    await stage.hub.stop()
    async with channel_on(vhost_url) as channel:
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
            await channel.exchange_declare("warrener.events", passive=True)


@pytest.fixture
async def inspector(vhost_url: str) -> AsyncIterator[SharedInspector]:
    endpoints = ResolvedEndpoints(vhost_url, "sqlite://", "sqlite://", from_up=False)
    found = SharedInspector(endpoints)
    yield found
    await found.close()


@pytest.mark.parametrize("name", ["\0", "a" * 300, "\udce4", "a b", ""])
async def test_a_bad_name_is_no_fault_of_the_broker(inspector: SharedInspector, name: str) -> None:
    found = await inspector.query([name])
    assert (found.trouble, dict(found.queues)) == (None, {})
    found = await inspector.query(["loading"])
    assert (found.trouble, dict(found.queues)) == (None, {"loading": None})
