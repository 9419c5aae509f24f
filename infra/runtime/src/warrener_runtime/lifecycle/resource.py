"""Anything with an opening and a closing call, as a component: a bus, a store, a ledger."""

from collections.abc import Awaitable, Callable

from warrener_runtime.lifecycle.component import ManagedComponent


class Resource(ManagedComponent):
    """Open at start, closed at stop; draining it is nothing, as it works for others.

    `shut` is called once for each `open_` that was begun, also if that failed or was cancelled.
    """

    def __init__(
        self, name: str, open_: Callable[[], Awaitable[object]], shut: Callable[[], Awaitable[object]]
    ) -> None:
        super().__init__(name)
        self._open = open_
        self._shut = shut
        self._opened = False

    async def _on_start(self) -> None:
        self._opened = True
        await self._open()

    async def _on_stop(self) -> None:
        if self._opened:
            self._opened = False
            await self._shut()
