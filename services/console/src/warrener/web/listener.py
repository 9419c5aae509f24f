"""The listening socket of the console. `warrener up` opens it at once and hands it to its console process."""

import errno
import socket
from contextlib import suppress

from warrener.errors import CommandError, UsageError

_PORTS_TRIED = 50


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
