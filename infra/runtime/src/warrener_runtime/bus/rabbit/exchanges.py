"""Whether an exchange exists: asked before publishing, because publishing to a missing one closes the
channel."""

from warrener_runtime.bus.rabbit.broker_client import BrokerClient


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

    async def missing(self, names: set[str], client: BrokerClient) -> set[str]:
        """Those that do not exist. Raises LinkLost."""
        unknown = names - self._known
        return {name for name in unknown if not await self._exists(name, client)}

    async def _exists(self, name: str, client: BrokerClient) -> bool:
        if not await client.has_exchange(name):
            return False
        self._known.add(name)
        return True
