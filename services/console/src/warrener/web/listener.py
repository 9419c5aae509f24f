"""The listening socket of the console. `warrener up` opens it at once and hands it to its console process."""

import errno
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

from warrener.errors import CommandError, UsageError

_PORTS_TRIED = 50
_ROOT = 0
# Of Linux, in sock_diag(7):
_FAMILY, _BY_FAMILY, _REQUEST = 4, 20, 1
_ESTABLISHED = 1  # a closed socket no longer has its user


def bind(host: str, port: int) -> socket.socket:
    """Listen on the address. Raises CommandError if it is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"expected a free port {port} on {host}, got one in use",
                do="stop its program, or choose another with --port or WARRENER_CONSOLE_PORT",
            ) from error
        raise UsageError(
            f"expected an address of this machine, got {host}:{port} ({error.strerror})",
            do="choose another with --host and --port",
        ) from error
    listener.setblocking(False)  # noqa: FBT003 - takes no keyword
    return listener


def address_of(listener: socket.socket) -> str:
    """The address for a browser."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def bind_near(host: str, port: int) -> socket.socket:
    """Listen on the first free one of this port and those after it. Raises CommandError without any."""
    for candidate in range(port, min(port + _PORTS_TRIED, 65536)) if port else (0,):
        with suppress(CommandError):
            return bind(host, candidate)
    return bind(host, 0)


# -- the user at the other end -----------------------------------------------------------------------------


def is_own_connection(connection: socket.socket | None) -> bool:
    """True unless another user of this machine has opened the connection: each of them can connect to a
    port of loopback.

    The kernel knows both ends of a connection over loopback, each with its user (Linux alone).
    """
    if connection is None or connection.family not in {socket.AF_INET, socket.AF_INET6}:
        return True
    try:
        ours, peer = connection.getsockname(), connection.getpeername()
        other = _find_end(connection.family, peer, ours)
        return other in {(_ESTABLISHED, os.getuid()), (_ESTABLISHED, _ROOT)} or (
            other is None and _find_end(connection.family, ours, peer) is None  # this system does not say
        )
    except OSError:  # the connection has ended already
        return False


def _find_end(family: int, local: Any, remote: Any) -> tuple[int, int] | None:
    """Return the state and the user of one end of a connection. It is one lookup, however many there are."""
    if sys.platform != "linux":
        return None
    ports = struct.pack("!HH", local[1], remote[1])
    hosts = [socket.inet_pton(family, end[0].partition("%")[0]).ljust(16, b"\0") for end in (local, remote)]
    cookies = b"\xff" * 8  # of any socket
    wanted = struct.pack("=BB2xI", family, socket.IPPROTO_TCP, 0xFFFFFFFF) + ports + b"".join(hosts)
    body = wanted + bytes(4) + cookies
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _FAMILY) as kernel:
        kernel.settimeout(1.0)
        kernel.send(struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _REQUEST, 0, 0) + body)
        answer = kernel.recv(4096)
        if struct.unpack_from("=H", answer, 4)[0] == _BY_FAMILY:
            return answer[17], struct.unpack_from("=I", answer, 80)[0]
    return None
