"""Keys of a terminal, read one by one while the terminal echoes nothing; it is restored afterwards."""

import os
import termios
from collections.abc import Generator, Iterator
from contextlib import contextmanager

_ESCAPES = {
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
}
_LOCAL_FLAGS, _CONTROL_CHARACTERS = 3, 6  # of the attributes of a terminal
_MAX_READ = 1024


@contextmanager
def single_keys(terminal: int) -> Generator[None]:
    """Deliver each key at once and echo none. Ctrl-C stays a signal; Ctrl-Z does nothing."""
    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    changed[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO)
    changed[_CONTROL_CHARACTERS][termios.VMIN] = 1
    changed[_CONTROL_CHARACTERS][termios.VTIME] = 0
    changed[_CONTROL_CHARACTERS][termios.VSUSP] = b"\0"  # a stopped command would leave its picture behind
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def read_keys(terminal: int) -> list[str]:
    """The keys that were pressed; none: the terminal is gone."""
    try:
        data = os.read(terminal, _MAX_READ)
    except OSError:
        data = b""
    return list(parse_keys(data))


def parse_keys(data: bytes) -> Iterator[str]:
    """Name the keys: `left`, `right`, `tab`, or the character. Pure."""
    while data:
        escape = data[:3]
        if escape in _ESCAPES:
            yield _ESCAPES[escape]
            data = data[3:]
        else:
            yield "tab" if data[:1] == b"\t" else data[:1].decode("latin-1")
            data = data[1:]
