"""SIGHUP, by which an operator has the escalation file read again at once."""

import asyncio
import signal
from collections.abc import Callable

from warrener_runtime.lifecycle import ManagedComponent


class ReloadOnSignal(ManagedComponent):
    """Calls `then` at each SIGHUP, which ends the process no more. In the main thread alone."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__("hang-up")
        self._then = then

    async def _on_start(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._then)

    async def _on_stop(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
