"""Free ports for servers that may be killed and must come back on the port they had."""

import fcntl
import itertools
import os
import socket
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from warrener_runtime.servers.errors import ServerFailed

# Below the range of outgoing connections (32768 and up): there a client that dials a dead server's port can
# be given that very port as its own, be connected to itself, and keep the server from coming back.
_FIRST = 10_000
_BLOCK = 10
_BLOCKS = 2_200
_STRIDE = 7  # has no factor in common with _BLOCKS: every block is visited

_made = itertools.count()
_reserved: set[int] = set()


def free_block(offsets: Sequence[int]) -> int:
    """A port P such that P + offset is free for every offset (each below 10).

    A block stays reserved until this process ends: nobody takes it before its server is up or while that is
    down, in this process or in another. Only where all are reserved, a free one is shared.
    """
    start = os.getpid() + next(_made) * _STRIDE
    free = (
        block
        for block in ((start + step * _STRIDE) % _BLOCKS for step in range(_BLOCKS))
        if all(_is_free(_base(block) + offset) for offset in offsets)
    )
    shared: int | None = None
    for block in free:
        if block not in _reserved and _reserve(block):
            _reserved.add(block)
            return _base(block)
        shared = block
    if shared is not None:
        return _base(shared)
    raise ServerFailed(
        f"expected a free block of ports between {_FIRST} and {_FIRST + _BLOCKS * _BLOCK}, got none; "
        "stop the servers that hold them"
    )


def _base(block: int) -> int:
    return _FIRST + block * _BLOCK


def _reserve(block: int) -> bool:
    """Lock the block's byte in a file that all processes of this user share; it ends with the process."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, block)
    except OSError:
        return False
    return True


@cache
def _reservations() -> int:
    path = Path(tempfile.gettempdir()) / f"warrener-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a port in TIME_WAIT is free to listen on
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
