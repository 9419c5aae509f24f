"""Whether heartbeats were heard for long enough that an agent's silence means something."""

from collections.abc import Callable
from datetime import datetime

from warrener_supervisor.rules import Rules


class Hearing:
    """Asked now and then. After a break every lease looks lapsed, and agents need time to come back."""

    def __init__(self, hears: Callable[[], bool], rules: Rules) -> None:
        self._hears, self._rules = hears, rules
        self._since: datetime | None = None

    def proves(self, now: datetime) -> bool:
        """Whether who was not heard of for a lease could have been."""
        if not self._hears():
            self._since = None
            return False
        self._since = self._since or now
        return now - self._since >= self._rules.lease + self._rules.reconnect
