"""A session with a real broker: calls get their replies, and every end is reported."""

import asyncio
from typing import Any

import pytest
from infra.amqp.tests.conftest import OpenSession
from infra.amqp.tests.recording_listener import RecordingListener
from pamqp import commands
from tests.servers.kinds import RabbitMQServer

from warrener_amqp import (
    Channel,
    ChannelGone,
    ChannelRefused,
    ConnectionLost,
    FrameMalformed,
    Session,
    parse_address,
)

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
        first, second = (
            asyncio.ensure_future(
                refused.call(commands.Queue.Declare(queue=name, passive=True), commands.Queue.DeclareOk)
            )
            for name in ("missing", "another")
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
