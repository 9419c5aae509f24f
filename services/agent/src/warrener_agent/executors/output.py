"""What a process of an attempt writes to its standard output and error."""

import asyncio
import os
from collections import deque
from contextlib import suppress
from enum import Enum

_PIECE = 1 << 16
_PIPE = 1 << 20
"""A pipe holds no more than this."""
LOG_BYTES = 8_000
"""How much of the last that was written is kept."""


class Keep(Enum):
    """Which part is kept of more than there is room for."""

    FIRST = "first"
    LAST = "last"


class CapturedOutput:
    """A pipe whose reading end is ours. What comes is kept, and passed on to one of our own outputs.

    It is read by the event loop as it comes, so that a process never waits for us for long; `drain` takes
    in what lies in the pipe and waits for nothing, not even for the other ends to be closed.
    """

    def __init__(
        self, *, capacity: int = LOG_BYTES, keep: Keep = Keep.LAST, forward_to: int | None = None
    ) -> None:
        self._capacity, self._keep, self._forward_to = capacity, keep, forward_to
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._open = self._ours = True
        self._loop.add_reader(self._reading, self._read_piece)
        self.overflow: asyncio.Future[None] = self._loop.create_future()

    def close_writing_end(self) -> None:
        """The process has its end, or there is none: ours of the same is closed."""
        if self._ours:
            self._ours = False
            os.close(self.writing)

    def clear(self) -> None:
        """Begin anew, with an empty memory."""
        self.drain()
        self._pieces.clear()
        self._size = 0

    def drain(self) -> None:
        """Take in what was written by now; who writes without end is not waited for."""
        for _ in range(_PIPE // _PIECE):
            if not self._open or not self._read_piece():
                return

    @property
    def content(self) -> bytes:
        """The part that is kept."""
        whole = b"".join(self._pieces)
        return whole[-self._capacity :] if self._keep is Keep.LAST else whole[: self._capacity]

    @property
    def text(self) -> str:
        """The same, for people."""
        return self.content.decode(errors="replace")

    def close(self) -> None:
        """Read no more."""
        self.close_writing_end()
        if self._open:
            self._close_reader()
        self.overflow.cancel()

    def _read_piece(self) -> bool:
        """Whether something came."""
        try:
            piece = os.read(self._reading, _PIECE)
        except BlockingIOError:
            return False
        if not piece:
            self._close_reader()
            return False
        self._store(piece)
        if self._forward_to is not None:
            with suppress(OSError):  # ours is closed or full: a handler's words are not worth to stand still
                os.write(self._forward_to, piece)
        return True

    def _close_reader(self) -> None:
        self._open = False
        self._loop.remove_reader(self._reading)
        os.close(self._reading)

    def _store(self, piece: bytes) -> None:
        if self._keep is Keep.FIRST and self._size > self._capacity:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._keep is Keep.LAST:
            while self._size - len(self._pieces[0]) >= self._capacity:
                self._size -= len(self._pieces.popleft())
        elif self._size > self._capacity and not self.overflow.done():
            self.overflow.set_result(None)
