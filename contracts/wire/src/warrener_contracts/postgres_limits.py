"""The limits of a PostgreSQL session, the same in the store and in the ledger: every wait ends on both sides.

Each side gives up in this order: lock, statement, client. So the server rolls back what its client no longer
waits for, and a client never waits for a server that is gone. No driver is needed to import this.
"""

import socket
from collections.abc import Mapping
from typing import Final

CONNECT_TIMEOUT: Final = 5.0
"""Seconds until a connection is open."""
RESPONSE_TIMEOUT: Final = 8.0
"""Seconds without an answer after which a server, or the network to it, counts as gone."""
_IDLE, _INTERVAL, _PROBES, _UNACKNOWLEDGED = 4, 2, 2, 8
"""TCP: seconds without traffic before the first probe, seconds between probes, unanswered probes, and seconds
that sent data may stay unacknowledged. A lost peer is noticed within eight seconds."""
PEER_SETTINGS: Final[Mapping[str, str]] = {
    "tcp_keepalives_idle": str(_IDLE),
    "tcp_keepalives_interval": str(_INTERVAL),
    "tcp_keepalives_count": str(_PROBES),
    "tcp_user_timeout": f"{_UNACKNOWLEDGED}s",
}
"""Server settings by which the server notices that its client is gone."""
_PEER_OPTIONS = {
    "TCP_KEEPIDLE": _IDLE,
    "TCP_KEEPINTVL": _INTERVAL,
    "TCP_KEEPCNT": _PROBES,
    "TCP_USER_TIMEOUT": _UNACKNOWLEDGED * 1000,
}


def session_settings(*, lock: float, statement: float, idle_transaction: float) -> dict[str, str]:
    """Return the server settings of a session whose waits end after these seconds."""
    if not 0 < lock < statement < RESPONSE_TIMEOUT:
        raise ValueError(
            f"expected lock < statement < {RESPONSE_TIMEOUT:g} seconds, got {lock:g} and {statement:g}"
        )
    return {
        **PEER_SETTINGS,
        "lock_timeout": f"{lock:g}s",
        "statement_timeout": f"{statement:g}s",
        "idle_in_transaction_session_timeout": f"{idle_transaction:g}s",
    }


def watch_peer(connection: socket.socket | None) -> None:
    """Set the options by which this side notices that its server is gone, as far as the platform has them."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PEER_OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
