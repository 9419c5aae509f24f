"""A gate at which a handler in another process waits until the test lets it through. It waits in the kernel,
so it neither sleeps nor looks again and again."""

import os
from pathlib import Path


def make_gate(path: Path) -> None:
    """A closed one."""
    os.mkfifo(path)


def open_gate(path: Path) -> None:
    """Let one through; it need not have come yet, and may be a frozen process."""
    # For reading too: a named pipe can be opened so without waiting for its other end.
    gate = os.open(path, os.O_RDWR)
    os.write(gate, b".")
    _OPEN_GATES.append(gate)  # what was written is gone with the last that has it open


def pass_gate(path: Path) -> None:
    """Wait until it is opened; for handlers in threads."""
    with path.open("rb", buffering=0) as gate:
        gate.read(1)


_OPEN_GATES: list[int] = []
