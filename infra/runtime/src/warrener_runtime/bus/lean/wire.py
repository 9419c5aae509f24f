"""A connection by warrener_amqp, as the bus needs one."""

import contextlib
from collections.abc import AsyncGenerator, Iterable

from pamqp import commands

from warrener_amqp import AuthenticationRefused, Channel, ChannelRefused, Session, address
from warrener_runtime.bus.lean.answers import answered
from warrener_runtime.bus.lean.consuming import LeanConsuming
from warrener_runtime.bus.lean.declaring import declare_on
from warrener_runtime.bus.lean.faults import lean_faults
from warrener_runtime.bus.lean.publishing import LeanPublishing
from warrener_runtime.bus.port import Backlog, BindingSpec, BusCredentialsRefused, ExchangeSpec, QueueSpec
from warrener_runtime.bus.rabbit.wire import LinkLost, Listener

_NOT_FOUND, _ACCESS_REFUSED = 404, 403


async def connect_lean(url: str, name: str) -> "LeanWire":
    """One try. Raises BusCredentialsRefused or LinkLost."""
    where = address(url).named(name)
    session = Session(where)
    try:
        with lean_faults():
            await session.open()
    except LinkLost as error:
        if isinstance(error.__cause__, AuthenticationRefused):
            raise BusCredentialsRefused(
                f"expected the broker at {where} to let {where.credentials.who} into virtual host"
                f" {where.wishes.virtual_host!r}, got: {error}; correct the broker URL, or create the user,"
                " its permissions or the virtual host"
            ) from error
        raise
    return LeanWire(session)


class LeanWire:
    """One connection of the lean lane."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def up(self) -> bool:
        """Whether nobody knows it to be broken."""
        return self._session.up

    async def ended(self) -> None:
        """Wait until it is closed."""
        await self._session.ended()

    async def unblocked(self) -> None:
        """Wait while the broker reads no publishes."""
        if self._session.blocked is not None:
            with lean_faults():
                await self._session.unblocked()

    async def declare(self, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]) -> None:
        """Make these exist."""
        async with self._channel() as channel:
            await declare_on(channel, exchanges, queues)

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Undo these where they are there."""
        async with self._channel() as channel:
            with lean_faults():
                for binding in bindings:
                    ask = commands.Queue.Unbind(
                        queue=queue, exchange=binding.exchange, routing_key=binding.key
                    )
                    await answered(channel.call(ask, commands.Queue.UnbindOk))

    async def has_exchange(self, name: str) -> bool:
        """Whether it exists. Asked on a channel of its own, because asking in vain closes the channel."""
        ask = commands.Exchange.Declare(exchange=name, passive=True)
        async with self._channel() as channel:
            with lean_faults():
                try:
                    await answered(channel.call(ask, commands.Exchange.DeclareOk))
                except ChannelRefused as refused:
                    if refused.code == _NOT_FOUND:
                        return False
                    if refused.code != _ACCESS_REFUSED:  # then it exists, and publishing to it will tell
                        raise
        return True

    async def backlog(self, queue: str) -> Backlog:
        """What waits in it. Asked on a channel of its own, because asking in vain closes the channel."""
        ask = commands.Queue.Declare(queue=queue, passive=True)
        async with self._channel() as channel:
            with lean_faults():
                try:
                    found = await answered(channel.call(ask, commands.Queue.DeclareOk))
                except ChannelRefused as refused:
                    if refused.code != _NOT_FOUND:
                        raise
                    return Backlog(0, 0)
        return Backlog(found.message_count or 0, found.consumer_count or 0)

    async def publishing(self) -> LeanPublishing:
        """Open a channel that publishes."""
        publishing = LeanPublishing(self._session)
        with lean_faults():
            await answered(publishing.open())
        return publishing

    async def consuming(self, queue: str, prefetch: int, listener: Listener) -> LeanConsuming:
        """Consume `queue` on a channel of its own."""
        consuming = LeanConsuming(self._session, listener)
        try:
            with lean_faults():
                await consuming.open(queue, prefetch)
        except BaseException:
            await consuming.close()
            raise
        return consuming

    async def close(self) -> None:
        """Close it, broken or not."""
        await self._session.close()

    @contextlib.asynccontextmanager
    async def _channel(self) -> AsyncGenerator[Channel]:
        with lean_faults():
            channel = await answered(self._session.channel())
        try:
            yield channel
        finally:
            with contextlib.suppress(LinkLost), lean_faults():
                await answered(channel.close())
