"""What is worth an alarm, and that it is said once."""

from dataclasses import replace
from datetime import timedelta

from services.supervisor.tests.event_factory import NOW, agent_row

from warrener_contracts.topology import REQUESTS_QUEUE, dispatch_queue
from warrener_runtime.bus.types import QueueStats
from warrener_store.agents.rows import AgentRow
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.service_monitor import (
    AlarmDetector,
    MonitoredQueue,
    draining_queues,
    monitored_queues,
)

RULES = Timings()
LEASE = RULES.lease
REQUESTS = MonitoredQueue(REQUESTS_QUEUE.name, "scheduler")
LATER = NOW + RULES.no_consumer_timeout


def agent(name: str = "ada", *, silent_for: timedelta = LEASE, draining: bool = False) -> AgentRow:
    return agent_row(name, queues=("etl",), running=2, draining=draining, last_seen_at=NOW - silent_for)


def test_an_agent_that_falls_silent_is_reported_once() -> None:
    alarms = AlarmDetector(RULES)
    assert not alarms.lost([agent(silent_for=LEASE / 2)], NOW)
    [lost] = alarms.lost([agent()], NOW)
    assert (lost.data.agent_id, lost.data.running, lost.data.last_seen_at) == ("ada", 2, NOW - LEASE)
    assert not alarms.lost([agent()], NOW + LEASE)
    assert lost.id == AlarmDetector(RULES).lost([agent()], NOW)[0].id, "the same word from another supervisor"


def test_one_that_beats_again_may_be_lost_again() -> None:
    alarms = AlarmDetector(RULES)
    alarms.lost([agent()], NOW)
    assert not alarms.lost([agent(silent_for=timedelta(0))], NOW)
    assert len(alarms.lost([agent()], NOW)) == 1


def test_who_has_taken_its_leave_and_who_was_gone_long_ago_are_no_news() -> None:
    gone = [agent(draining=True), agent("bob", silent_for=timedelta(days=1))]
    assert not AlarmDetector(RULES).lost(gone, NOW)


def test_a_queue_whose_agents_drain_is_not_watched_until_they_have_ended() -> None:
    beating = timedelta(seconds=1)
    agents = [
        agent("ada", silent_for=beating, draining=True),
        replace(agent("bob", silent_for=beating), queues=("mails",)),
        replace(agent("eve", draining=True), queues=("pages",)),
    ]
    assert draining_queues(agents, NOW - LEASE) == {dispatch_queue("etl").name}


def test_a_queue_that_nobody_consumes_for_long_is_reported_once() -> None:
    alarms = AlarmDetector(RULES)
    assert not alarms.unresponsive({REQUESTS: QueueStats(3, 0)}, NOW)
    [unresponsive] = alarms.unresponsive({REQUESTS: QueueStats(5, 0)}, LATER)
    assert (unresponsive.data.service, unresponsive.data.queue, unresponsive.data.waiting) == (
        "scheduler",
        REQUESTS_QUEUE.name,
        5,
    )
    assert unresponsive.data.since == NOW
    assert not alarms.unresponsive({REQUESTS: QueueStats(9, 0)}, LATER + RULES.no_consumer_timeout)


def test_a_queue_that_is_consumed_or_empty_is_no_alarm_and_starts_over() -> None:
    alarms = AlarmDetector(RULES)
    alarms.unresponsive({REQUESTS: QueueStats(3, 0)}, NOW)
    assert not alarms.unresponsive({REQUESTS: QueueStats(3, 1)}, LATER)
    assert not alarms.unresponsive({REQUESTS: QueueStats(3, 0)}, LATER)
    assert not alarms.unresponsive({REQUESTS: QueueStats(0, 0)}, LATER + RULES.no_consumer_timeout)


def test_the_queues_that_somebody_should_consume() -> None:
    found = monitored_queues([agent()], ["default", "etl"])
    assert [monitored.queue for monitored in found] == [
        "warrener.requests",
        "warrener.triggers",
        "warrener.commands.scheduler",
        "warrener.queue.default",
        "warrener.queue.etl",
    ]
