"""The signs of life of one attempt, where its job type has a `heartbeat_timeout`."""

from collections.abc import Callable


class HandlerHeartbeat:
    """When the handler has been heard of last. A sign of life is one assignment, from whatever thread; who
    watches looks when the silence would be too long, and looks again if it was not."""

    __slots__ = ("_last_beat_at", "_now", "timeout", "timeout_at")

    def __init__(self, timeout: float, timeout_at: float, now: Callable[[], float]) -> None:
        """`timeout`: seconds of silence. `timeout_at`: when its time is over anyhow; monotonic, as `now`."""
        self.timeout, self.timeout_at = timeout, timeout_at
        self._now = now
        self._last_beat_at = now()

    def beat(self) -> None:
        """A sign of life."""
        self._last_beat_at = self._now()

    @property
    def due(self) -> float:
        """When to look, as far as is known now."""
        return min(self._last_beat_at + self.timeout, self.timeout_at)

    @property
    def is_expired(self) -> bool:
        """Whether it was silence that ended it, and not its time."""
        return self._last_beat_at + self.timeout < self.timeout_at
