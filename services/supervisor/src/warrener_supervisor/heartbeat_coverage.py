"""Whether heartbeats were received for long enough that an agent's silence means something."""

from collections.abc import Callable

from warrener_supervisor.timings import Timings

TICK = 0.5
"""Seconds between looks at the process itself."""

_FROZEN = 2.0
"""Seconds between two looks after which the process counts as frozen: what it knows is old."""


class HeartbeatCoverage:
    """True evidence needs a whole lease of uninterrupted consumption.

    After a break of the connection agents may have had one too, and need time to come back. A process that
    was frozen (SIGSTOP, a suspended host) has the heartbeats of that time still before it.

    `receives`: True while heartbeats arrive and are handled at once. `epoch`: another value means that the
    queue was lost, with what was in it.
    """

    def __init__(self, receives: Callable[[], bool], epoch: Callable[[], object], timings: Timings) -> None:
        self._receives, self._epoch = receives, epoch
        self._lease = timings.lease.total_seconds()
        self._reconnect = timings.reconnect.total_seconds()
        self._known_epoch: object = None
        self._since: float | None = None
        self._looked: float | None = None
        self._broke_off = False

    def sample(self, now: float) -> None:
        """Note how the process fares at this monotonic moment; called every `TICK` seconds."""
        frozen = self._looked is not None and now - self._looked > _FROZEN
        self._looked = now
        epoch = self._epoch()
        lost = self._since is not None and epoch != self._known_epoch
        self._known_epoch = epoch
        if lost or not self._receives():
            self._broke_off = self._broke_off or self._since is not None
            self._since = None
        if frozen:
            self._since = None
        if self._since is None and self._receives():
            self._since = now

    def is_conclusive(self, now: float) -> bool:
        """True if an agent that was silent for a lease would have been received, had it spoken."""
        self.sample(now)
        patience = self._lease + self._reconnect if self._broke_off else self._lease
        return self._since is not None and now - self._since >= patience
