"""A consumer that seems to live and gets nothing asks whether it should have got something (G8)."""

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
    assert not test.starves(waiting=5, now=0)
    assert not test.starves(waiting=5, now=9)
    assert test.starves(waiting=5, now=10)
    assert not test.starves(waiting=5, now=15), "renewed, it has its time again"
    assert test.starves(waiting=5, now=25)


def test_a_queue_that_was_empty_meanwhile_and_a_delivery_begin_it_anew() -> None:
    test = SupplyTest(10)
    test.starves(waiting=5, now=0)
    test.starves(waiting=0, now=5)
    assert not test.starves(waiting=5, now=10)
    test.idle(heard=1, has_room=True)
    assert not test.starves(waiting=5, now=20)
