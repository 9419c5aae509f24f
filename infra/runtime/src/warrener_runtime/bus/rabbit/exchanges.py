"""Whether an exchange exists: asked on a channel of its own, because asking in vain closes the channel."""

import aiormq

from warrener_runtime.bus.rabbit.connection import RPC_SECONDS, close_quietly, open_channel
from warrener_runtime.bus.rabbit.frames import unless_ended


class KnownExchanges:
    """Remembers what was seen to exist. Publishing to a missing one would close the channel for everybody."""

    def __init__(self) -> None:
        self._known: set[str] = {""}

    def forget(self, *names: str) -> None:
        """It may be gone."""
        self._known.difference_update(names)

    def forget_all(self) -> None:
        """A new connection may lead to a broker that lost its memory."""
        self._known = {""}

    async def missing(self, names: set[str], connection: aiormq.abc.AbstractConnection) -> set[str]:
        """Those that do not exist. Raises LinkLost."""
        unknown = names - self._known
        return {name for name in unknown if not await self._exists(name, connection)}

    async def _exists(self, name: str, connection: aiormq.abc.AbstractConnection) -> bool:
        channel = await open_channel(connection, aiormq.Channel)
        try:
            asked = channel.exchange_declare(name, passive=True, timeout=RPC_SECONDS)
            await unless_ended(connection, asked)
        except aiormq.ChannelNotFoundEntity:
            return False
        except aiormq.ChannelAccessRefused:
            pass  # it exists, and publishing to it will tell
        finally:
            await close_quietly(channel)
        self._known.add(name)
        return True
