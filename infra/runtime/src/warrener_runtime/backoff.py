"""How long to wait before the next try."""


class ExponentialBackoff:
    """Delays that double from `first` to `ceiling`, and begin again after a success. Pure."""

    def __init__(self, first: float = 0.1, ceiling: float = 10.0) -> None:
        self._first = first
        self._ceiling = ceiling
        self.failures = 0

    def failed(self) -> float:
        """One more failure; the seconds to wait before the next try."""
        delay = min(self._ceiling, self._first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return delay

    def succeeded(self) -> None:
        """The next failure waits the first delay again."""
        self.failures = 0
