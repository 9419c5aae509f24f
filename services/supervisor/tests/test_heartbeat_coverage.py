"""Silence proves nothing to a supervisor that could not have received anything."""

from dataclasses import dataclass

from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.heartbeat_consumer import TICK, HeartbeatCoverage

RULES = Timings()
LEASE, RECONNECT = RULES.lease.total_seconds(), RULES.reconnect.total_seconds()


@dataclass
class FakeHeartbeatQueue:
    """What is consumed, and how."""

    live: bool = True
    epoch: int = 1


def coverage_of(queue: FakeHeartbeatQueue) -> HeartbeatCoverage:
    return HeartbeatCoverage(lambda: queue.live, lambda: queue.epoch, RULES)


def looked(coverage: HeartbeatCoverage, begin: float, end: float) -> bool:
    """What it says at the end of this time, in which it has looked as often as it should."""
    for step in range(int((end - begin) / TICK)):
        coverage.sample(begin + step * TICK)
    return coverage.is_conclusive(end)


def test_a_lease_must_have_been_listened_for() -> None:
    coverage = coverage_of(FakeHeartbeatQueue())
    assert not looked(coverage, 0, LEASE - 1)
    assert looked(coverage, LEASE - 1, LEASE)


def test_after_a_break_agents_have_time_to_come_back() -> None:
    queue = FakeHeartbeatQueue(live=False)
    coverage = coverage_of(queue)
    assert not looked(coverage, 0, 100), "not begun yet: no break"
    queue.live = True
    assert looked(coverage, 101, 102 + LEASE)
    queue.live = False
    assert not looked(coverage, 102 + LEASE, 200)
    queue.live = True
    assert not looked(coverage, 200, 200 + LEASE + 1)
    assert looked(coverage, 201 + LEASE, 200 + LEASE + RECONNECT + 1)


def test_a_queue_that_was_lost_between_two_looks_is_a_break() -> None:
    queue = FakeHeartbeatQueue()
    coverage = coverage_of(queue)
    assert looked(coverage, 0, 100)
    queue.epoch = 2
    assert not looked(coverage, 100, 100 + LEASE + 1)
    assert looked(coverage, 101 + LEASE, 100 + LEASE + RECONNECT + 1)


def test_a_process_that_was_frozen_first_receives_what_waits() -> None:
    coverage = coverage_of(FakeHeartbeatQueue())
    assert looked(coverage, 0, 100)
    assert not coverage.is_conclusive(125), "frozen for 25 s"
    assert not looked(coverage, 125, 125 + LEASE - 1)
    assert looked(coverage, 124 + LEASE, 125 + LEASE)
