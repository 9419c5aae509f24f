"""The limits of PostgreSQL sessions: what gives up first, and what both sides set."""

import socket

import pytest

from warrener_contracts.postgres_limits import PEER_SETTINGS, RESPONSE_TIMEOUT, session_settings, watch_peer


def test_each_wait_of_a_session_ends_before_its_client_gives_up() -> None:
    assert session_settings(lock=0.3, statement=6, idle_transaction=5) == {
        **PEER_SETTINGS,
        "lock_timeout": "0.3s",
        "statement_timeout": "6s",
        "idle_in_transaction_session_timeout": "5s",
    }


@pytest.mark.parametrize(("lock", "statement"), [(3, 3), (3, RESPONSE_TIMEOUT), (0, 7)])
def test_limits_in_another_order_are_refused(lock: float, statement: float) -> None:
    with pytest.raises(ValueError, match="expected lock < statement < 8 seconds"):
        session_settings(lock=lock, statement=statement, idle_transaction=5)


def test_a_socket_watches_its_peer_where_there_is_a_network() -> None:
    with socket.socket(socket.AF_INET) as tcp:
        watch_peer(tcp)
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    with socket.socket(socket.AF_UNIX) as local:
        watch_peer(local)
        assert local.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
    watch_peer(None)
