"""The topology needs no more than every supported broker has, and loses no message."""

from collections.abc import Iterator

import pytest
from tools.reference.golden import golden_events

from warrener_contracts import messages, topology

WORK = (
    topology.REQUESTS_QUEUE,
    topology.STATUS_QUEUE,
    topology.TRIGGERS_QUEUE,
    *(topology.SCHEDULER_COMMANDS, topology.SUPERVISOR_COMMANDS, topology.dispatch_queue("loading")),
)
LIMITS = {"queue": 20}
LAST_RESORT = (topology.DEAD_QUEUE, topology.UNROUTABLE_QUEUE)
EVERYTHING = topology.TOPOLOGY.with_queues(
    [
        topology.dispatch_queue("loading"),
        topology.heartbeats_queue("supervisor-1"),
        topology.control_queue("loader-7c9f.4121", ["loading"]),
        topology.reply_queue("desk-4"),
    ]
)
# Arguments that RabbitMQ 3.10, 4.0 and 4.3 all take, in the same way (docs/explanation/topology.md).
CLASSIC = {"x-queue-type", "x-message-ttl", "x-max-length", "x-overflow"}
DEAD_LETTERS = {"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy"}
QUORUM = {*CLASSIC, *DEAD_LETTERS, "x-max-length-bytes", "x-delivery-limit", "x-queue-leader-locator"}
PORTABLE = {"quorum": QUORUM, "classic": CLASSIC}


@pytest.mark.parametrize("queue", EVERYTHING.queues, ids=lambda queue: queue.name)
def test_every_argument_means_the_same_on_every_broker(queue: topology.Queue) -> None:
    kind = str(queue.arguments.get("x-queue-type", "classic"))
    assert set(queue.arguments) <= PORTABLE[kind]
    assert kind == "classic" or not queue.exclusive
    limit = queue.arguments.get("x-delivery-limit", 1)
    assert isinstance(limit, int)
    assert limit > 0  # -1 means unlimited on 4.x, and on 3.10 drops the message at its first redelivery


@pytest.mark.parametrize("queue", WORK, ids=lambda queue: queue.name)
def test_a_queue_that_carries_work_loses_nothing(queue: topology.Queue) -> None:
    assert queue.arguments == {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-max-length": 10_000_000,
        "x-dead-letter-exchange": "warrener.dead",
        "x-dead-letter-routing-key": f"dead.{queue.name.removeprefix('warrener.')}",
        "x-dead-letter-strategy": "at-least-once",
        # Only dispatches are given up: the supervisor dispatches them again.
        "x-delivery-limit": LIMITS.get(queue.name.split(".")[1], 1_000_000),
        "x-queue-leader-locator": "balanced",
    }


@pytest.mark.parametrize("queue", LAST_RESORT, ids=lambda queue: queue.name)
def test_the_last_resort_never_gives_a_message_up(queue: topology.Queue) -> None:
    assert queue.arguments == {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}


def test_a_delay_queue_holds_every_message_equally_long_and_forwards_it_at_least_once() -> None:
    assert [level.name for level in topology.DELAY_LEVELS] == ["1s", "5s", "15s", "1m", "5m", "15m", "1h"]
    for level, queue in zip(topology.DELAY_LEVELS, topology.DELAY_QUEUES, strict=True):
        assert queue.name == level.queue == f"warrener.delay.{level.name}"
        assert queue.arguments == {
            "x-queue-type": "quorum",
            "x-message-ttl": level.delay.total_seconds() * 1000,
            "x-overflow": "reject-publish",
            "x-dead-letter-strategy": "at-least-once",
            "x-dead-letter-exchange": "warrener.return",
        }


def test_every_dead_letter_exchange_has_an_alternate() -> None:
    """At-least-once dead-lettering retries endlessly while nothing is bound: an alternate exchange ends
    that."""
    alternates = {exchange.name: exchange.alternate for exchange in topology.EXCHANGES}
    for queue in EVERYTHING.queues:
        if target := queue.arguments.get("x-dead-letter-exchange"):
            assert alternates[str(target)] == "warrener.unroutable"
    assert alternates["warrener.unroutable"] is None
    assert {exchange.name for exchange in topology.EXCHANGES if exchange.kind == "fanout"} == {
        "warrener.unroutable"
    }


def test_mandatory_exchanges_have_no_alternate_so_that_publishers_see_returns() -> None:
    """With an alternate exchange a mandatory message is never returned: those must not have one."""
    mandatory = {"warrener.requests", "warrener.dispatch", "warrener.commands"}
    assert [e.alternate for e in topology.EXCHANGES if e.name in mandatory] == [None, None, None]


def test_names_are_unique_and_every_binding_leads_from_an_exchange_that_is_declared() -> None:
    declared = [exchange.name for exchange in topology.EXCHANGES]
    names = [queue.name for queue in EVERYTHING.queues]
    assert len(set(declared)) == len(declared)
    assert len(set(names)) == len(names)
    assert {binding.exchange for queue in EVERYTHING.queues for binding in queue.bindings} <= set(declared)


def matches(pattern: list[str], words: list[str]) -> bool:
    """As a topic exchange matches: `*` is one word, `#` any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return matches(pattern[1:], words) or (bool(words) and matches(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and matches(pattern[1:], words[1:])


def reached(exchange: str, key: str) -> Iterator[str]:
    for queue in EVERYTHING.queues:
        if any(b.exchange == exchange and matches(b.key.split("."), key.split(".")) for b in queue.bindings):
            yield queue.name


REACHED = {
    "warrener.requests": ["warrener.requests"],
    "warrener.dispatch": ["warrener.queue.loading"],
    "warrener.status": ["warrener.status"],
    "warrener.heartbeats": ["warrener.heartbeats.supervisor-1"],
    "warrener.control": ["warrener.control.loader-7c9f.4121"],
    "warrener.logs": ["warrener.logs"],
    "warrener.events": [],  # subscribers own their queues
}


@pytest.mark.parametrize("name", sorted(golden_events()))
def test_every_event_reaches_its_queue_and_no_other(name: str) -> None:
    exchange, key = messages.address_of(golden_events()[name])
    if exchange == topology.COMMANDS:
        [receiver] = golden_events()[name].routes[0].receivers
        assert list(reached(exchange, key)) == [f"warrener.commands.{receiver}"]
    else:
        assert list(reached(exchange, key)) == REACHED[exchange]


def test_an_answer_reaches_its_asker() -> None:
    message = messages.build_reply(golden_events()["job.finished.v1"], "desk-4")
    assert list(reached(message.exchange, message.routing_key)) == ["warrener.reply.desk-4"]


@pytest.mark.parametrize("level", topology.DELAY_LEVELS, ids=lambda level: level.name)
def test_an_attempt_passes_each_delay_queue_and_returns_to_its_own(level: topology.DelayLevel) -> None:
    key = f"{level.name}.{messages.build_message(golden_events()['attempt.dispatched.v1']).routing_key}"
    assert list(reached(topology.DELAY, key)) == [level.queue]
    assert list(reached("warrener.return", key)) == ["warrener.queue.loading"]


def test_a_queue_whose_name_begins_alike_gets_nothing_of_another() -> None:
    for exchange, prefix in (("warrener.dispatch", ""), ("warrener.return", "1s.")):
        for key in ("load.flights", "loading-2.flights.load", "default.loading.flights"):
            assert list(reached(exchange, prefix + key)) == []


def test_dead_letters_and_parked_messages_reach_the_dead() -> None:
    parked = messages.build_parked_message(
        queue="warrener.status", body=b"", reason="", detail="", message_id="1", content_type=None
    )
    keys = [str(queue.arguments["x-dead-letter-routing-key"]) for queue in WORK]
    for key in (parked.routing_key, *keys):
        assert list(reached("warrener.dead", key)) == ["warrener.dead"]
    assert list(reached("warrener.unroutable", "anything.at.all")) == ["warrener.unroutable"]


def test_a_control_order_reaches_all_one_queue_or_one_agent() -> None:
    for key in ("all", "queue.loading", "agent.loader-7c9f.4121", topology.pulse_key("loader-7c9f.4121")):
        assert list(reached("warrener.control", key)) == ["warrener.control.loader-7c9f.4121"]
    assert list(reached("warrener.control", "agent.loader-7c9f")) == []
