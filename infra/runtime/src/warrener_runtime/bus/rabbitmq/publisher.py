"""Publishing in batches, with one wait for all confirms."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from warrener_runtime.bus.rabbitmq.channels import BrokerConnectionLost, PublishBatch, PublisherChannel
from warrener_runtime.bus.rabbitmq.client import RabbitClient
from warrener_runtime.bus.rabbitmq.connection import ReconnectingConnection
from warrener_runtime.bus.types import OutgoingMessage, PublishResult
from warrener_runtime.health import NotReady
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)


class RabbitPublisher:
    """Publishes on a channel of its own, and opens another after every loss."""

    def __init__(
        self, connection: ReconnectingConnection, on_refused: Callable[[str], None], user_id: str | None
    ) -> None:
        """`on_refused` receives the broker's reason whenever it closes the channel over a publish. `user_id`:
        the user that messages name; None: none."""
        self._connection, self._on_refused, self._user_id = connection, on_refused, user_id
        # That exist: publishing to a missing one closes the channel for all messages.
        self._known_exchanges: set[str] = set()
        self._channel: PublisherChannel | None = None
        self._client: RabbitClient | None = None
        self._opening = asyncio.Lock()

    def on_connected(self) -> None:
        """Prepare for a new connection: nothing known of the old one holds."""
        self._known_exchanges.clear()

    async def check(self) -> None:
        """Raise NotReady while an alarm of the broker (memory, disk) holds all publishers up."""
        if self._client is not None and (reason := self._client.session.blocked) is not None:
            raise NotReady(f"the broker takes no messages: {reason}; see `rabbitmq-diagnostics alarms`")

    async def publish(self, messages: Sequence[OutgoingMessage], seconds: float) -> list[PublishResult]:
        """Publish all; without a confirm within `seconds` the result is UNKNOWN. No failure of the broker
        raises."""
        batch = PublishBatch(messages)
        if messages:
            with contextlib.suppress(TimeoutError, BrokerConnectionLost):
                async with asyncio.timeout(seconds):
                    await self._publish(batch)
        return list(batch.results)  # a late confirm changes the other list

    async def _publish(self, batch: PublishBatch) -> None:
        client = await self._connection.wait_connected()
        await client.wait_unblocked()  # messages written during an alarm would be sent again
        exchanges = {message.exchange for message in batch.messages}
        missing, routed = await self._missing(exchanges, client), list[int]()
        for index, message in enumerate(batch.messages):
            if message.exchange in missing:
                batch.resolve(index, PublishResult.UNROUTABLE)
            else:
                routed.append(index)
        if not routed:
            return
        channel = await self._open_channel()
        try:
            await channel.send(batch, routed)
        finally:
            if channel.closed:
                self._known_exchanges -= exchanges
                self._note_refusal(channel.refusal)

    async def _missing(self, exchanges: set[str], client: RabbitClient) -> set[str]:
        if not (unknown := exchanges - self._known_exchanges - {""}):
            return unknown
        missing, _ = await client.missing(sorted(unknown))
        self._known_exchanges |= unknown - missing
        return missing

    async def _open_channel(self) -> PublisherChannel:
        async with self._opening:
            client = await self._connection.wait_connected()
            if self._channel is None or self._channel.closed or self._client is not client:
                if self._channel is not None:
                    await self._channel.close()
                self._channel = await client.open_publisher(self._user_id)
                self._client = client
            return self._channel

    def _note_refusal(self, refusal: str | None) -> None:
        if refusal is None:
            return
        self._on_refused(refusal)
        _log.warning(
            "The broker closed the publishing channel; messages in flight are uncertain."
            " Look at the reason: a missing exchange, a permission, or another WARRENER_BROKER_USER.",
            action="bus.publish_channel_closed",
            error=refusal,
        )
