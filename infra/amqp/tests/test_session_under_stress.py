"""A broker that stands still, is short of memory, or takes less than it is given."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
from infra.amqp.tests.conftest import OpenSession
from infra.amqp.tests.recording_listener import RecordingListener, publish
from pamqp import commands
from tests.servers.kinds import RabbitMQServer

from warrener_amqp import AmqpEvent, Channel, ConnectionLost, Session
from warrener_amqp import session as session_module
from warrener_amqp import transport as transport_module

WITHIN = 60.0


@pytest.fixture
async def paused_in_the_end(own_rabbitmq: RabbitMQServer) -> AsyncIterator[RabbitMQServer]:
    yield own_rabbitmq
    own_rabbitmq.resume()


def count_heartbeats(session: Session, monkeypatch: pytest.MonkeyPatch) -> RecordingListener:
    """Make a listener that counts the heartbeats of the broker as cancelled consumers."""
    listener, receive = RecordingListener(), session.core.receive

    def counting(data: bytes) -> list[AmqpEvent]:
        if data == b"\x08\0\0\0\0\0\0\xce":
            listener.on_cancel("heartbeat")
        return receive(data)

    monkeypatch.setattr(session.core, "receive", counting)
    return listener


async def confirming(session: Session, listener: RecordingListener) -> Channel:
    """A channel with confirms, and a queue `q`."""
    channel = await session.channel(listener)
    await channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    await channel.call(commands.Queue.Declare(queue="q", exclusive=True), commands.Queue.DeclareOk)
    return channel


def _nearly(listener: RecordingListener, sent: int) -> bool:
    return listener.confirmed >= sent - 50


async def _publish_until_lost(session: Session, channel: Channel) -> None:
    ended = asyncio.ensure_future(session.wait_closed())
    while True:
        publish(session, channel, "q", b"x" * 10_000)
        await session.transport.drain()
        await asyncio.wait({ended}, timeout=0.001)


class TestHeartbeats:
    """The broker drops a client that is silent for two intervals, as a machine that stands still is: so the
    intervals are seconds where it must not."""

    async def test_an_idle_client_beats_so_that_the_broker_keeps_it(
        self, open_session: OpenSession, vhost_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = await open_session(f"{vhost_url}?heartbeat=4")
        listener = count_heartbeats(session, monkeypatch)
        # One every two seconds: so the broker has waited for more than two intervals.
        await listener.until(lambda: len(listener.cancelled) >= 6)
        assert session.is_open
        await session.channel()

    async def test_a_busy_publisher_stays_connected(self, open_session: OpenSession, vhost_url: str) -> None:
        session, listener = await open_session(f"{vhost_url}?heartbeat=4"), RecordingListener()
        channel = await confirming(session, listener)
        until = asyncio.get_running_loop().time() + 9.0
        sent = 0
        while asyncio.get_running_loop().time() < until:
            sent = publish(session, channel, "q")
            await session.transport.drain()
            await listener.until(partial(_nearly, listener, sent))
        await listener.until(lambda: listener.confirmed == sent)
        assert session.is_open

    @pytest.mark.parametrize("busy", [False, True])
    async def test_a_broker_that_stands_still_is_found_out(
        self, open_session: OpenSession, paused_in_the_end: RabbitMQServer, *, busy: bool
    ) -> None:
        session, listener = await open_session(f"{paused_in_the_end.url}?heartbeat=1"), RecordingListener()
        channel = await session.channel(listener)
        paused_in_the_end.pause()
        async with asyncio.timeout(WITHIN):
            if busy:
                with pytest.raises(ConnectionLost):
                    await _publish_until_lost(session, channel)
            await session.wait_closed()
        assert "two intervals" in str(session.loss_reason)
        assert listener.closed == [session.loss_reason]


async def test_a_publisher_that_is_faster_than_the_broker_waits(
    open_session: OpenSession, paused_in_the_end: RabbitMQServer
) -> None:
    session, listener = await open_session(paused_in_the_end.url), RecordingListener()
    channel = await confirming(session, listener)
    paused_in_the_end.pause()
    body, sent = b"x" * 100_000, list[int]()

    async def flood() -> None:
        while len(sent) < 500:
            sent.append(publish(session, channel, "q", body))
            session.transport.flush()
            await session.transport.drain()

    flooding = asyncio.ensure_future(flood())
    done, _ = await asyncio.wait({flooding}, timeout=1)
    assert not done
    stuck = len(sent)
    held = session.transport._socket
    assert held is not None
    assert held.get_write_buffer_size() <= transport_module.HIGH_WATER + 2 * len(body)
    paused_in_the_end.resume()
    async with asyncio.timeout(WITHIN):
        await flooding
    assert stuck < len(sent) == 500
    await listener.until(lambda: listener.confirmed == 500)


async def test_a_memory_alarm_begins_and_ends(
    open_session: OpenSession, own_rabbitmq: RabbitMQServer
) -> None:
    session, listener = await open_session(own_rabbitmq.url), RecordingListener()
    channel = await confirming(session, listener)
    await session.wait_unblocked()
    await asyncio.to_thread(own_rabbitmq.evaluate, "vm_memory_monitor:set_vm_memory_high_watermark(0.0001)")
    publish(session, channel, "q")
    async with asyncio.timeout(WITHIN):
        while session.blocked is None:
            publish(session, channel, "q")
            await asyncio.wait({asyncio.ensure_future(session.wait_unblocked())}, timeout=0.05)
    waiting = asyncio.ensure_future(session.wait_unblocked())
    await asyncio.wait({waiting}, timeout=0)
    assert not waiting.done()
    await asyncio.to_thread(own_rabbitmq.evaluate, "vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
    async with asyncio.timeout(WITHIN):
        await waiting
    assert session.blocked is None
    last = publish(session, channel, "q")
    await listener.until(lambda: listener.confirmed == last)


async def test_a_goodbye_that_nobody_hears_is_not_waited_for(
    open_session: OpenSession, paused_in_the_end: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_CLOSE_TIMEOUT", 0.2)
    monkeypatch.setattr(transport_module, "_ABORT_TIMEOUT", 0.2)
    session = await open_session(paused_in_the_end.url)
    channel = await session.channel()
    paused_in_the_end.pause()
    for _ in range(100):
        publish(session, channel, "q", b"x" * 100_000)
    async with asyncio.timeout(WITHIN):
        await session.close()
    assert not session.is_open
