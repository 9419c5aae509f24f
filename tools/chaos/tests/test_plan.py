"""The plan of a chaos run: the same for a seed, with every kind in it."""

from tools.chaos.faults.catalogue import available
from tools.chaos.faults.registry import KINDS
from tools.chaos.faults.topology import SAMPLE
from tools.chaos.plan import make_plan

from warrener_contracts.topology import (
    COMMAND_QUEUES,
    DEAD_QUEUE,
    EXCHANGES,
    LOGS_QUEUE,
    REQUESTS_QUEUE,
    STATUS_QUEUE,
)


def test_a_seed_always_brings_the_same_plan() -> None:
    kinds = available()
    assert make_plan(kinds, 7, 150) == make_plan(kinds, 7, 150)
    assert make_plan(kinds, 7, 150) != make_plan(kinds, 8, 150)


def test_the_long_form_has_every_kind_and_at_least_120() -> None:
    kinds = available()
    planned = {one.kind.name for one in make_plan(kinds, 1, 300)}
    assert planned == {kind.name for kind in kinds}
    assert len(planned) >= 120


def test_every_piece_of_the_topology_has_its_kinds() -> None:
    named = {kind.name for kind in available()}
    for exchange in EXCHANGES:
        assert {f"exchange {exchange.name} deleted{how}" for how in ("", " and declared again")} <= named
    for queue in (REQUESTS_QUEUE, STATUS_QUEUE, *COMMAND_QUEUES, LOGS_QUEUE, DEAD_QUEUE):
        assert {f"queue {queue.name} {how}" for how in ("deleted", "purged", "full")} <= named
        assert {f"binding {one.exchange} {one.key} unbound" for one in queue.bindings} <= named
    assert {"agent may not write warrener.heartbeats", "nobody may configure"} <= named


def test_the_short_form_takes_a_sample_of_what_is_generated() -> None:
    sampled = {kind.name for kind in available(short=True)}
    assert sampled >= SAMPLE, "each name of the sample is that of a kind"
    assert len(sampled) < 70


def test_without_libfaketime_only_the_faults_of_clocks_are_left_out() -> None:
    named = {kind.name for kind in available()}
    assert named >= {kind.name for kind in KINDS.values() if not (kind.needs_faketime or kind.needs_cluster)}


def test_a_cluster_has_kinds_of_its_own() -> None:
    alone = {kind.name for kind in available()}
    added = {kind.name for kind in available(cluster=True)} - alone
    assert {"cluster: partition", "database: standby promoted"} <= added


def test_kinds_are_chosen_by_parts_of_their_names() -> None:
    assert {kind.name for kind in available(only="killed", without="all of,broker,database,turn,join")} == {
        "scheduler killed",
        "agent killed",
        "supervisor killed",
    }
    assert len(available(short=True)) < len(available())
