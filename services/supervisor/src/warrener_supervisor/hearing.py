"""Whether heartbeats were heard for long enough that an agent's silence means something."""

from collections.abc import Callable
from datetime import datetime

from warrener_supervisor.rules import Rules


class Hearing:
    """Asked now and then. Who has just begun must have listened for a lease. After a break every lease looks
    lapsed, and agents may have had one too: they need time to come back."""

    def __init__(self, hears: Callable[[], bool], rules: Rules) -> None:
        self._hears, self._rules = hears, rules
        self._since: datetime | None = None
        self._broke_off = False

    def proves(self, now: datetime) -> bool:
        """Whether who was not heard of for a lease could have been."""
        if not self._hears():
            self._broke_off = self._broke_off or self._since is not None
            self._since = None
            return False
        self._since = self._since or now
        patience = self._rules.lease + self._rules.reconnect if self._broke_off else self._rules.lease
        return now - self._since >= patience
