"""The signs of life of one attempt, where its job type has a `heartbeat_timeout`."""

from collections.abc import Callable


class Pulse:
    """When the handler has been heard of last. A sign of life is one assignment, from whatever thread; who
    watches looks when the silence would be too long, and looks again if it was not."""

    __slots__ = ("_heard_at", "_now", "over_at", "patience")

    def __init__(self, patience: float, over_at: float, now: Callable[[], float]) -> None:
        """`patience`: seconds of silence. `over_at`: when its time is over anyhow; monotonic, as `now`."""
        self.patience, self.over_at = patience, over_at
        self._now = now
        self._heard_at = now()

    def beat(self) -> None:
        """A sign of life."""
        self._heard_at = self._now()

    @property
    def due(self) -> float:
        """When to look, as far as is known now."""
        return min(self._heard_at + self.patience, self.over_at)

    @property
    def stopped(self) -> bool:
        """Whether it was silence that ended it, and not its time."""
        return self._heard_at + self.patience < self.over_at
