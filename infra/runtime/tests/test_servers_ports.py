"""Ports for servers that come back."""

import socket

from warrener_runtime.servers.ports import free_block


def test_a_block_with_one_taken_port_is_passed_over() -> None:
    base = free_block((0, 1))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 1))
        taken.listen()
        found = {free_block((0, 1)) for _ in range(2200)}
    assert base not in found


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    assert all(10_000 <= free_block((0, 4)) <= 32_768 - 5 for _ in range(50))


def test_two_servers_of_one_process_never_look_at_the_same_block() -> None:
    assert free_block((0,)) != free_block((0,))
