"""Messages that were sent together, and what became of them."""

import asyncio
from collections.abc import Sequence

from warrener_runtime.bus.port import Fate


class Round:
    """Writes fates down where the caller of `publish` looks for them. `over` is set when each has one."""

    __slots__ = ("_fates", "_open", "over")

    def __init__(self, fates: list[Fate], size: int) -> None:
        self._fates = fates
        self._open = size
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def decide(self, place: int, fate: Fate) -> None:
        """Write down what became of one; each is decided once."""
        self._fates[place] = fate
        self.count_down()

    def decide_all(self, places: Sequence[int], fate: Fate) -> None:
        """Write down what became of some."""
        for place in places:
            self._fates[place] = fate
        self.count_down(len(places))

    def count_down(self, decided: int = 1) -> None:
        """So many more have a fate."""
        self._open -= decided
        if not self._open and not self.over.done():
            self.over.set_result(None)
