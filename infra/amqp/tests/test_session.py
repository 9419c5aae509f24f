"""A session with a real broker: calls get their replies, and every end is reported; also of a broker that
stands still, is short of memory, or takes less than it is given."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from infra.amqp.tests.broker_side import RecordingListener, publish
from infra.amqp.tests.conftest import OpenSession
from pamqp import commands
from tests.servers.kinds import RabbitMQServer

from warrener_amqp import session as session_module
from warrener_amqp import transport as transport_module
from warrener_amqp.address import parse_address
from warrener_amqp.channel import Channel
from warrener_amqp.errors import ChannelGone, ChannelRefused, ConnectionLost, FrameMalformed
from warrener_amqp.events import AmqpEvent
from warrener_amqp.session import Session

WITHIN = 60.0


async def declare(channel: Channel, name: str, arguments: dict[str, str | int] | None = None) -> None:
    table: Any = arguments  # pamqp's type of tables is invariant
    declare_method = commands.Queue.Declare(queue=name, exclusive=True, arguments=table)
    await channel.call(declare_method, commands.Queue.DeclareOk)


class TestChannels:
    async def test_a_refusal_ends_one_channel_and_no_other(
        self, open_session: OpenSession, vhost_url: str
    ) -> None:
        session, listener = await open_session(vhost_url), RecordingListener()
        refused, other = await session.channel(listener), await session.channel()
        looks = [commands.Queue.Declare(queue=name, passive=True) for name in ("missing", "another")]
        first, second = (
            asyncio.ensure_future(refused.call(look, commands.Queue.DeclareOk)) for look in looks
        )
        with pytest.raises(ChannelRefused, match="missing") as caught:
            await first
        assert caught.value.code == 404
        with pytest.raises(ChannelGone):
            await second
        with pytest.raises(ChannelGone):
            await refused.call(commands.Basic.Qos(0, 1), commands.Basic.QosOk)
        assert len(listener.closed) == 1
        await declare(other, "still")
        await refused.close()
        assert (await session.channel()).number == refused.number

    async def test_an_answer_that_nobody_waits_for_is_not_taken_for_another(
        self, open_session: OpenSession, vhost_url: str
    ) -> None:
        session = await open_session(vhost_url)
        channel = await session.channel()
        given_up = asyncio.ensure_future(declare(channel, "q"))
        await asyncio.wait({given_up}, timeout=0)
        given_up.cancel()
        await asyncio.wait({given_up})
        answer = await channel.call(commands.Basic.Qos(0, 1), commands.Basic.QosOk)
        assert isinstance(answer, commands.Basic.QosOk)


class TestOpening:
    @pytest.mark.parametrize(
        ("answer", "kind"),
        [(b"HTTP/1.1 400 Bad\r\n", FrameMalformed), (None, ConnectionLost), (b"", ConnectionLost)],
    )
    async def test_somebody_else_there(self, answer: bytes | None, kind: type[Exception]) -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if answer:
                writer.write(answer)
            elif answer is None:
                await reader.read()  # until the client hangs up
            writer.close()

        async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            session = Session(parse_address(f"amqp://127.0.0.1:{port}"))
            with pytest.raises(kind):
                await session.open(timeout=0.5 if answer is None else WITHIN)
            await session.close()
            server.close()


class TestEnding:
    async def test_close_ends_session_and_channels(self, open_session: OpenSession, vhost_url: str) -> None:
        session, listener = await open_session(vhost_url), RecordingListener()
        channel = await session.channel(listener)
        async with asyncio.timeout(WITHIN):
            await session.close()
            await session.close()
            await session.wait_closed()
        assert not session.is_open
        assert isinstance(listener.closed[0], ConnectionLost)
        with pytest.raises(ChannelGone):
            await channel.call(commands.Basic.Qos(0, 1), commands.Basic.QosOk)
        with pytest.raises(ConnectionLost):
            await session.channel()

    async def test_an_operator_closes_it(
        self, open_session: OpenSession, broker: RabbitMQServer, vhost_url: str
    ) -> None:
        session, listener = await open_session(vhost_url), RecordingListener()
        channel = await session.channel(listener)
        await asyncio.to_thread(broker.close_connections, "for maintenance")
        async with asyncio.timeout(WITHIN):
            await session.wait_closed()
        assert "320" in str(session.loss_reason)
        assert "maintenance" in str(session.loss_reason)
        assert listener.closed == [session.loss_reason]
        assert channel.close_reason is session.loss_reason

    async def test_a_pending_call_fails_with_the_connection(
        self, open_session: OpenSession, own_rabbitmq: RabbitMQServer
    ) -> None:
        session = await open_session(own_rabbitmq.url)
        channel = await session.channel()
        own_rabbitmq.pause()
        waiting = asyncio.ensure_future(declare(channel, "q"))
        await asyncio.wait({waiting}, timeout=0)
        own_rabbitmq.kill()
        with pytest.raises(ConnectionLost):
            async with asyncio.timeout(WITHIN):
                await waiting
        async with asyncio.timeout(WITHIN):
            await session.wait_closed()


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
