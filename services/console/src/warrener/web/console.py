"""The connections of pages and actions: the open store and one client of the broker, beside the settings."""

from datetime import UTC, datetime, timedelta
from time import monotonic

from warrener.context import ResolvedEndpoints
from warrener.operations.masking import Masker
from warrener.operations.noun import Backend
from warrener.operations.system import SharedInspector
from warrener.web.settings import ConsoleSettings
from warrener.web.tick_calendar import TickCalendar
from warrener_store import Store

_CLOCK_CHECK_INTERVAL = 30.0  # seconds


class Console(Backend):
    """The connections of one console process."""

    def __init__(self, store: Store, endpoints: ResolvedEndpoints, settings: ConsoleSettings) -> None:
        super().__init__(store, endpoints, Masker(settings.console_masked_fields))
        self.settings = settings
        self.query_broker = self.shared(SharedInspector).query
        self.calendar = TickCalendar()
        self._clock_offset = timedelta(0)
        self._clock_checked_at = float("-inf")

    async def now(self) -> datetime:
        """The time by the store's clock, in UTC; compared with our own every half minute."""
        if monotonic() - self._clock_checked_at > _CLOCK_CHECK_INTERVAL:
            self._clock_offset = await self.store.time() - datetime.now(UTC)
            self._clock_checked_at = monotonic()
        return datetime.now(UTC) + self._clock_offset
