"""Free ports for servers that may be killed and must come back on the port they had."""

import itertools
import os
import socket
from collections.abc import Sequence

from warrener_runtime.servers.errors import ServerFailed

# Below the range of outgoing connections (32768 and up): there a client that dials a dead server's port can
# be given that very port as its own, be connected to itself, and keep the server from coming back.
_FIRST = 10_000
_BLOCK = 10
_BLOCKS = 2_200
_STRIDE = 7  # has no factor in common with _BLOCKS: every block is visited

_made = itertools.count()


def free_block(offsets: Sequence[int]) -> int:
    """A port P such that P + offset is free for every offset (each below 10).

    Processes that look at the same moment look at different blocks: each begins at its own process id.
    """
    start = os.getpid() + next(_made) * _STRIDE
    for step in range(_BLOCKS):
        base = _FIRST + (start + step * _STRIDE) % _BLOCKS * _BLOCK
        if all(_is_free(base + offset) for offset in offsets):
            return base
    raise ServerFailed(
        f"expected a free block of ports between {_FIRST} and {_FIRST + _BLOCKS * _BLOCK}, got none; "
        "stop the servers that hold them"
    )


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
