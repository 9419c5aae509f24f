"""Keeping the ledger of ticks from growing: a port of its own, kept by the same stores; its suite is
`tests/conformance/test_tick_retention.py`."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from warrener_store.schedules.rows import TickRow


class TickRetention(Protocol):
    """Where old ticks are deleted. Errors are those of the state store."""

    async def ticked_schedules(self, after: str, limit: int) -> list[str]:
        """Names that the ledger has rows of, later than `after`, in order; of removed schedules too."""
        ...

    async def old_ticks(
        self, schedules: Collection[str], before: datetime, newest: int, limit: int
    ) -> list[TickRow]:
        """Ticks of these with a nominal time before `before`, at most `limit` of each, the oldest.

        The `newest` of each schedule are not among them, nor what waits or is not known to be published.
        """
        ...

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        """Delete those of these that may still go; how many."""
        ...
