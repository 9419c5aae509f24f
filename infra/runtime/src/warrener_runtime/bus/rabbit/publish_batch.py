"""Messages that were sent together, and what became of them."""

import asyncio
from collections.abc import Sequence

from warrener_runtime.bus.port import PublishResult


class PublishBatch:
    """Writes fates down where the caller of `publish` looks for them. `done` is set when each has one."""

    __slots__ = ("_open", "_results", "done")

    def __init__(self, results: list[PublishResult], size: int) -> None:
        self._results = results
        self._open = size
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self, index: int, result: PublishResult) -> None:
        """Write down what became of one; each is decided once."""
        self._results[index] = result
        self.count_down()

    def resolve_all(self, indexes: Sequence[int], result: PublishResult) -> None:
        """Write down what became of some."""
        for index in indexes:
            self._results[index] = result
        self.count_down(len(indexes))

    def count_down(self, decided: int = 1) -> None:
        """So many more have a fate."""
        self._open -= decided
        if not self._open and not self.done.done():
            self.done.set_result(None)
