"""SIGTERM and SIGINT: the first asks, the second insists, the third demands."""

import asyncio
import signal
from types import TracebackType
from typing import Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Counts the signals that ask this process to end. Used with `with`, inside a running loop."""

    def __init__(self) -> None:
        self.stop_requested = asyncio.Event()
        self.hurry_requested = asyncio.Event()
        self.abort_requested = asyncio.Event()
        self.name = ""

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._receive, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def _receive(self, number: signal.Signals) -> None:
        if self.hurry_requested.is_set():
            self.abort_requested.set()
        if self.stop_requested.is_set():
            self.hurry_requested.set()
        self.name = number.name
        self.stop_requested.set()
