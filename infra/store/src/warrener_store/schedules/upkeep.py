"""Keeping the ledger of ticks from growing for ever: a port of its own, kept by the same stores; its suite is
`tests/conformance/test_tick_upkeep.py`."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol


class TickUpkeep(Protocol):
    """Where old ticks are forgotten. Errors are those of the state store."""

    async def ticked_schedules(self, after: str, limit: int) -> list[str]:
        """Names that the ledger has rows of, later than `after`, in order; of removed schedules too."""
        ...

    async def forget_ticks(
        self, schedules: Collection[str], before: datetime, newest: int, limit: int
    ) -> int:
        """Remove ticks of these with a nominal time before `before`, at most `limit` of each; how many.

        The `newest` of each schedule stay, and so does what waits or is not known to be published.
        """
        ...
