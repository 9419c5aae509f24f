"""A consumer that seems alive and receives nothing has the broker count what waits (G8)."""

from warrener_runtime.bus import QueueStats
from warrener_runtime.lifecycle.consumer_health import StallDetector


def test_a_consumer_that_just_received_is_not_idle() -> None:
    test = StallDetector(10)
    assert not test.is_idle(received_count=0, has_capacity=True), "the first look compares with nothing"
    assert test.is_idle(received_count=0, has_capacity=True)
    assert not test.is_idle(received_count=3, has_capacity=True)


def test_a_consumer_at_its_prefetch_is_not_idle() -> None:
    test = StallDetector(10)
    test.is_idle(received_count=2, has_capacity=False)
    assert not test.is_idle(received_count=2, has_capacity=False)


def test_starving_is_to_get_nothing_for_long_while_something_waits() -> None:
    test = StallDetector(10)
    test.is_idle(received_count=0, has_capacity=True)
    assert not test.is_starved(QueueStats(5, 1), 0)
    assert not test.is_starved(QueueStats(5, 1), 9)
    assert test.is_starved(QueueStats(5, 1), 10)
    assert not test.is_starved(QueueStats(5, 1), 15), "renewed, it has its time again"
    assert test.is_starved(QueueStats(5, 1), 25)


def test_an_empty_queue_or_a_delivery_restarts_the_timer() -> None:
    test = StallDetector(10)
    test.is_starved(QueueStats(5, 1), 0)
    test.is_starved(QueueStats(0, 1), 5)
    assert not test.is_starved(QueueStats(5, 1), 10)
    test.is_idle(received_count=1, has_capacity=True)
    assert not test.is_starved(QueueStats(5, 1), 20)


def test_a_long_idle_consumer_resubscribes_as_the_broker_may_have_forgotten_it() -> None:
    test = StallDetector(10, resubscribe_after=20)
    test.is_idle(received_count=0, has_capacity=True)
    assert not test.should_resubscribe(nothing_unacked=True, now=0)
    assert not test.should_resubscribe(nothing_unacked=True, now=19)
    assert test.should_resubscribe(nothing_unacked=True, now=20)
    assert not test.should_resubscribe(nothing_unacked=True, now=25), "the count restarts"


def test_a_consumer_with_unacked_or_recent_deliveries_does_not_resubscribe() -> None:
    test = StallDetector(10, resubscribe_after=20)
    test.is_idle(received_count=0, has_capacity=True)
    test.should_resubscribe(nothing_unacked=True, now=0)
    assert not test.should_resubscribe(nothing_unacked=False, now=20), "it would come again"
    assert not test.should_resubscribe(nothing_unacked=True, now=39)
    test.is_idle(received_count=1, has_capacity=True)
    assert not test.should_resubscribe(nothing_unacked=True, now=60)


def test_a_queue_that_is_gone_without_a_word_is_noticed_though_nothing_waits_in_it() -> None:
    test = StallDetector(10)
    assert not test.is_starved(QueueStats(0, 0), 0)
    assert test.is_starved(QueueStats(0, 0), 10)
    assert not test.is_starved(QueueStats(0, 1), 15), "it is consumed again"
