"""Silence proves nothing to the deaf."""

from datetime import timedelta

from services.supervisor.tests.words import NOW

from warrener_supervisor.hearing import Hearing
from warrener_supervisor.rules import Rules

RULES = Rules()
SECOND = timedelta(seconds=1)


def test_who_has_just_begun_to_listen_must_have_listened_for_a_lease() -> None:
    hearing = Hearing(lambda: True, RULES)
    assert not hearing.proves(NOW)
    assert not hearing.proves(NOW + RULES.lease - SECOND)
    assert hearing.proves(NOW + RULES.lease)


def test_after_a_break_agents_have_time_to_come_back() -> None:
    ears = [False]
    hearing = Hearing(lambda: ears[0], RULES)
    hearing.proves(NOW)  # not yet begun: no break
    ears[0] = True
    hearing.proves(NOW)
    assert hearing.proves(NOW + RULES.lease)
    ears[0] = False
    assert not hearing.proves(NOW + RULES.lease + SECOND)
    ears[0] = True
    again = NOW + RULES.lease + 2 * SECOND
    assert not hearing.proves(again)
    assert not hearing.proves(again + RULES.lease)
    assert hearing.proves(again + RULES.lease + RULES.reconnect)
