"""The plan of a chaos run: the same for a seed, with every kind in it."""

from tests.chaos.faults.catalogue import available
from tests.chaos.faults.registry import KINDS
from tests.chaos.plan import make_plan


def test_a_seed_always_brings_the_same_plan() -> None:
    kinds = available()
    assert make_plan(kinds, 7, 150) == make_plan(kinds, 7, 150)
    assert make_plan(kinds, 7, 150) != make_plan(kinds, 8, 150)


def test_the_long_form_has_every_kind_and_at_least_twenty() -> None:
    kinds = available()
    planned = {one.kind.name for one in make_plan(kinds, 1, 150)}
    assert planned == {kind.name for kind in kinds}
    assert len(planned) >= 20


def test_without_libfaketime_only_the_faults_of_clocks_are_left_out() -> None:
    named = {kind.name for kind in available()}
    assert named >= {kind.name for kind in KINDS.values() if not kind.needs_faketime}


def test_kinds_are_chosen_by_parts_of_their_names() -> None:
    assert {kind.name for kind in available(only="killed", without="all of,broker,database")} == {
        "scheduler killed",
        "agent killed",
        "supervisor killed",
    }
    assert len(available(short=True)) < len(available())
