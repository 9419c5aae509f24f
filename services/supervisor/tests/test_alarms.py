"""What is worth an alarm, and that it is said once."""

from datetime import timedelta

from services.supervisor.tests.words import NOW

from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_runtime.bus.port import QueueStats
from warrener_store.rows import AgentRow
from warrener_supervisor.alarms import Alarms, Ear, ears
from warrener_supervisor.rules import Rules

RULES = Rules()
LEASE = RULES.lease
REQUESTS = Ear(REQUESTS_QUEUE.name, "scheduler")
LATER = NOW + RULES.deaf


def agent(name: str = "ada", *, silent_for: timedelta = LEASE, draining: bool = False) -> AgentRow:
    return AgentRow(
        agent_id=name,
        host="here",
        pid=1,
        queues=("etl",),
        slots=1,
        running=2,
        draining=draining,
        started_at=NOW,
        last_seen_at=NOW - silent_for,
    )


def test_an_agent_that_falls_silent_is_told_of_once() -> None:
    alarms = Alarms(RULES)
    assert not alarms.lost([agent(silent_for=LEASE / 2)], NOW)
    [lost] = alarms.lost([agent()], NOW)
    assert (lost.data.agent_id, lost.data.running, lost.data.last_seen_at) == ("ada", 2, NOW - LEASE)
    assert not alarms.lost([agent()], NOW + LEASE)
    assert lost.id == Alarms(RULES).lost([agent()], NOW)[0].id, "the same word from another supervisor"


def test_one_that_is_heard_again_may_be_lost_again() -> None:
    alarms = Alarms(RULES)
    alarms.lost([agent()], NOW)
    assert not alarms.lost([agent(silent_for=timedelta(0))], NOW)
    assert len(alarms.lost([agent()], NOW)) == 1


def test_who_has_taken_its_leave_and_who_was_gone_long_ago_are_no_news() -> None:
    gone = [agent(draining=True), agent("bob", silent_for=timedelta(days=1))]
    assert not Alarms(RULES).lost(gone, NOW)


def test_a_queue_that_nobody_consumes_for_long_is_told_of_once() -> None:
    alarms = Alarms(RULES)
    assert not alarms.deaf({REQUESTS: QueueStats(3, 0)}, NOW)
    [deaf] = alarms.deaf({REQUESTS: QueueStats(5, 0)}, LATER)
    assert (deaf.data.service, deaf.data.queue, deaf.data.waiting) == ("scheduler", REQUESTS_QUEUE.name, 5)
    assert deaf.data.since == NOW
    assert not alarms.deaf({REQUESTS: QueueStats(9, 0)}, LATER + RULES.deaf)


def test_a_queue_that_is_consumed_or_empty_is_no_alarm_and_begins_anew() -> None:
    alarms = Alarms(RULES)
    alarms.deaf({REQUESTS: QueueStats(3, 0)}, NOW)
    assert not alarms.deaf({REQUESTS: QueueStats(3, 1)}, LATER)
    assert not alarms.deaf({REQUESTS: QueueStats(3, 0)}, LATER)
    assert not alarms.deaf({REQUESTS: QueueStats(0, 0)}, LATER + RULES.deaf)


def test_the_queues_that_somebody_should_consume() -> None:
    found = ears([agent()], ["default", "etl"])
    assert [ear.queue for ear in found] == [
        "warrener.requests",
        "warrener.triggers",
        "warrener.queue.default",
        "warrener.queue.etl",
    ]
