"""One connection to the broker, and channels of our own kinds on it."""

import asyncio
from typing import Any, TypeVar

import aiormq
from aiormq.connection import FrameReceiver
from pamqp import commands as spec
from pamqp.base import Frame
from pamqp.frame import FrameTypes, marshal
from yarl import URL

from warrener_runtime.bus.port import BusCredentialsRefused
from warrener_runtime.bus.rabbitmq.aiormq.error_translation import translate_errors
from warrener_runtime.bus.rabbitmq.aiormq.frames import run_unless_closed

# A dead peer is found out after (heartbeat + 1) * 3 seconds; aiormq's default of 60 makes that minutes.
_HEARTBEAT = 10
_HANDSHAKE_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
RPC_SECONDS = 10.0

C = TypeVar("C", bound=aiormq.Channel)


class HandshakeConnection(aiormq.Connection):
    """aiormq's connection, which says why the broker closed it during the handshake."""

    @staticmethod
    async def _rpc(
        request: Frame,
        writer: asyncio.StreamWriter,
        frame_receiver: FrameReceiver,
        wait_response: bool = True,  # noqa: FBT001, FBT002 - the signature is aiormq's
    ) -> FrameTypes | None:
        """A step of the handshake. aiormq's own hides the reply code when it refuses the virtual host."""
        writer.write(marshal(request, 0))
        await writer.drain()
        if not wait_response:
            return None
        _, _, frame = await frame_receiver.get_frame()
        if isinstance(frame, spec.Connection.Close):
            if frame.reply_code == 403:
                raise aiormq.ProbableAuthenticationError(frame.reply_text)
            raise aiormq.ConnectionClosed(frame.reply_code, frame.reply_text)
        return frame


def address(url: str, name: str) -> URL:
    """The broker's URL with what it leaves unsaid: the heartbeat, and the name that operators see."""
    parsed = URL(url)
    query = {"heartbeat": str(_HEARTBEAT), "name": name}
    return parsed.update_query({key: value for key, value in query.items() if key not in parsed.query})


async def connect(url: URL) -> HandshakeConnection:
    """Connect, in one try. Raises BusCredentialsRefused or BrokerConnectionLost."""
    connection = HandshakeConnection(url)
    try:
        with translate_errors():
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await connection.connect()  # pyright: ignore[reportUnknownMemberType] - half typed
                await connection.connected.wait()
    except BaseException as error:
        if (reason := _refusal(error.__cause__)) is not None:
            raise BusCredentialsRefused(
                f"expected the broker at {url.host}:{url.port} to let user {url.user!r} into virtual host"
                f" {connection.vhost!r}, got: {reason}; correct the broker URL, or create the user, its"
                " permissions or the virtual host"
            ) from error
        raise
    return connection


def _refusal(cause: BaseException | None) -> str | None:
    """Find the broker's refusal, for which waiting will not help."""
    if isinstance(cause, aiormq.ProbableAuthenticationError | aiormq.AuthenticationError):
        return str(cause)
    if isinstance(cause, aiormq.ConnectionClosed) and cause.args[0] == 530:
        text = str(cause.args[1])
        # 530 is also said for limits that pass: too many connections, a node in maintenance.
        return text if "not found" in text or "refused" in text else None
    return None


async def open_channel(connection: aiormq.abc.AbstractConnection, kind: type[C], **options: Any) -> C:
    """A channel of our own kind; `HandshakeConnection.channel()` makes only aiormq's. Raises
    BrokerConnectionLost."""
    with translate_errors():
        if connection.is_closed:
            raise aiormq.ConnectionClosed(None, "before the channel was opened")
        number = next(number for number in range(1, 65536) if number not in connection.channels)
        channel = kind(connection, number, **options)
        connection.channels[number] = channel
        await run_unless_closed(connection, channel.open(timeout=RPC_SECONDS))
        return channel


async def close_quietly(resource: aiormq.abc.AbstractConnection | aiormq.abc.AbstractChannel) -> None:
    """Close what may be broken already; a peer that does not answer is not waited for."""
    try:
        with translate_errors():
            async with asyncio.timeout(_CLOSE_SECONDS):
                await resource.close()
    except Exception:  # noqa: BLE001, S110 - it is given up either way, and nothing depends on how
        pass
