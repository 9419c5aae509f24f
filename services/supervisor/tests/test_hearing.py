"""Silence proves nothing to a supervisor that could not have received anything."""

from dataclasses import dataclass

from warrener_supervisor.hearing import TICK, Hearing
from warrener_supervisor.rules import Rules

RULES = Rules()
LEASE, RECONNECT = RULES.lease.total_seconds(), RULES.reconnect.total_seconds()


@dataclass
class Queue:
    """What is consumed, and how."""

    live: bool = True
    epoch: int = 1


def hearing_of(queue: Queue) -> Hearing:
    return Hearing(lambda: queue.live, lambda: queue.epoch, RULES)


def looked(hearing: Hearing, begin: float, end: float) -> bool:
    """What it says at the end of this time, in which it has looked as often as it should."""
    for step in range(int((end - begin) / TICK)):
        hearing.look(begin + step * TICK)
    return hearing.proves(end)


def test_a_lease_must_have_been_listened_for() -> None:
    hearing = hearing_of(Queue())
    assert not looked(hearing, 0, LEASE - 1)
    assert looked(hearing, LEASE - 1, LEASE)


def test_after_a_break_agents_have_time_to_come_back() -> None:
    queue = Queue(live=False)
    hearing = hearing_of(queue)
    assert not looked(hearing, 0, 100), "not begun yet: no break"
    queue.live = True
    assert looked(hearing, 101, 102 + LEASE)
    queue.live = False
    assert not looked(hearing, 102 + LEASE, 200)
    queue.live = True
    assert not looked(hearing, 200, 200 + LEASE + 1)
    assert looked(hearing, 201 + LEASE, 200 + LEASE + RECONNECT + 1)


def test_a_queue_that_was_lost_between_two_looks_is_a_break() -> None:
    queue = Queue()
    hearing = hearing_of(queue)
    assert looked(hearing, 0, 100)
    queue.epoch = 2
    assert not looked(hearing, 100, 100 + LEASE + 1)
    assert looked(hearing, 101 + LEASE, 100 + LEASE + RECONNECT + 1)


def test_a_process_that_was_frozen_first_receives_what_waits() -> None:
    hearing = hearing_of(Queue())
    assert looked(hearing, 0, 100)
    assert not hearing.proves(125), "frozen for 25 s"
    assert not looked(hearing, 125, 125 + LEASE - 1)
    assert looked(hearing, 124 + LEASE, 125 + LEASE)
