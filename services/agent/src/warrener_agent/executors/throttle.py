"""The latest word, passed on now and then."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

_INTERVAL = 0.1
"""Seconds between two words. The agent sends one a second: more would only keep it busy with reading."""


class Throttle:
    """Passes on the first word at once, and of those that follow quickly the last, which always arrives."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._next = 0.0
        self._latest: Any = None
        self._timer: threading.Timer | None = None

    def put(self, value: Any) -> None:
        """Pass on `value`, or a later one."""
        with self._lock:
            self._latest = value
            wait = self._next - monotonic()
            if self._timer is not None:
                return
            if wait > 0:
                self._timer = threading.Timer(wait, self.flush)
                self._timer.daemon = True
                self._timer.start()
                return
            self._pass_on()

    def flush(self) -> None:
        """Pass on now what waits."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
                self._pass_on()

    def _pass_on(self) -> None:
        self._next = monotonic() + _INTERVAL
        self._send(self._latest)
