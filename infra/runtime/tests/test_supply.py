"""A consumer that seems to live and gets nothing asks whether it should have got something (G8)."""

from warrener_runtime.bus import Backlog
from warrener_runtime.lifecycle.supply import SupplyTest


def test_who_has_just_heard_something_need_not_ask() -> None:
    test = SupplyTest(10)
    assert not test.idle(heard=0, has_room=True), "the first look compares with nothing"
    assert test.idle(heard=0, has_room=True)
    assert not test.idle(heard=3, has_room=True)


def test_who_has_its_hands_full_need_not_ask() -> None:
    test = SupplyTest(10)
    test.idle(heard=2, has_room=False)
    assert not test.idle(heard=2, has_room=False)


def test_starving_is_to_get_nothing_for_long_while_something_waits() -> None:
    test = SupplyTest(10)
    test.idle(heard=0, has_room=True)
    assert not test.starves(Backlog(5, 1), 0)
    assert not test.starves(Backlog(5, 1), 9)
    assert test.starves(Backlog(5, 1), 10)
    assert not test.starves(Backlog(5, 1), 15), "renewed, it has its time again"
    assert test.starves(Backlog(5, 1), 25)


def test_a_queue_that_was_empty_meanwhile_and_a_delivery_begin_it_anew() -> None:
    test = SupplyTest(10)
    test.starves(Backlog(5, 1), 0)
    test.starves(Backlog(0, 1), 5)
    assert not test.starves(Backlog(5, 1), 10)
    test.idle(heard=1, has_room=True)
    assert not test.starves(Backlog(5, 1), 20)


def test_who_has_been_idle_for_long_consumes_anew_for_the_broker_may_have_lost_sight_of_it() -> None:
    test = SupplyTest(10, doubtful_after=20)
    test.idle(heard=0, has_room=True)
    assert not test.doubtful(empty_handed=True, now=0)
    assert not test.doubtful(empty_handed=True, now=19)
    assert test.doubtful(empty_handed=True, now=20)
    assert not test.doubtful(empty_handed=True, now=25), "it counts anew"


def test_who_holds_something_or_has_just_heard_something_does_not_doubt() -> None:
    test = SupplyTest(10, doubtful_after=20)
    test.idle(heard=0, has_room=True)
    test.doubtful(empty_handed=True, now=0)
    assert not test.doubtful(empty_handed=False, now=20), "it would come again"
    assert not test.doubtful(empty_handed=True, now=39)
    test.idle(heard=1, has_room=True)
    assert not test.doubtful(empty_handed=True, now=60)


def test_a_queue_that_is_gone_without_a_word_is_noticed_though_nothing_waits_in_it() -> None:
    test = SupplyTest(10)
    assert not test.starves(Backlog(0, 0), 0)
    assert test.starves(Backlog(0, 0), 10)
    assert not test.starves(Backlog(0, 1), 15), "it is consumed again"
