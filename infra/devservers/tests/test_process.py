"""Ports for servers that come back."""

import random
import socket
import subprocess
import sys

import pytest

from warrener_devservers.process import free_block

_OTHER = """
import sys
from warrener_devservers.process import free_block
print(free_block((0,)), flush=True)
sys.stdin.read()
"""


def look_first_at(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (port - 10_000) // 10

    def sample(blocks: range, _: int) -> list[int]:
        return [first, *(block for block in blocks if block != first)]

    monkeypatch.setattr(random, "sample", sample)


def test_a_block_of_another_process_is_not_taken_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        look_first_at(theirs, monkeypatch)
        assert free_block((0,)) != theirs
        other.communicate()


def test_a_block_with_one_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    base = free_block((0, 1))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 1))
        taken.listen()
        monkeypatch.setattr("warrener_devservers.process._reserved", set[int]())
        look_first_at(base, monkeypatch)
        assert free_block((0, 1)) != base


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    assert all(10_000 <= free_block((0, 4)) <= 32_768 - 5 for _ in range(50))


def test_two_servers_of_one_process_never_look_at_the_same_block() -> None:
    assert free_block((0,)) != free_block((0,))
