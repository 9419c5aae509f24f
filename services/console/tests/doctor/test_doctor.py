"""Findings of the doctor's checks; pure."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.store_rows import NOON, after, agent_row

from warrener.command.doctor import check_isolation
from warrener.doctor import CheckResult, CheckStatus
from warrener.doctor.broker import bindings, broker_clock, check_consumers, permissions, topology, version
from warrener.doctor.inspector import BrokerTime, QueueInfo
from warrener.doctor.management_api import BindingsUnavailable
from warrener.doctor.store import (
    agents,
    check_agents_in_trouble,
    check_mixed_queues,
    check_served_types,
    clocks,
)
from warrener.doctor.topology import TopologyDiff, TopologyDifference
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_store.incidents.rows import MIXED_QUEUE, IncidentRow


def test_old_and_other_brokers_are_recognised() -> None:
    assert version("RabbitMQ 3.10.8").status is CheckStatus.OK
    assert version("RabbitMQ 4.3.6").status is CheckStatus.OK
    assert version("RabbitMQ 3.9.29").status is CheckStatus.ERROR
    assert version("LavinMQ 2.1.0").status is CheckStatus.WARNING


def test_a_queue_without_consumers_shows_what_waits() -> None:
    found = check_consumers("scheduler", "scheduler", REQUESTS_QUEUE, QueueInfo(messages=7, consumers=0))
    assert (found.status, found.message) == (
        CheckStatus.ERROR,
        "no consumer of warrener.requests, 7 messages wait",
    )
    assert check_consumers("scheduler", "scheduler", REQUESTS_QUEUE, QueueInfo(0, 2)).status is CheckStatus.OK
    assert check_consumers("scheduler", "scheduler", REQUESTS_QUEUE, None).status is CheckStatus.ERROR


def test_differences_are_counted_and_what_helps_depends_on_them() -> None:
    missing = [TopologyDifference(f"queue {n}", "is missing", missing=True) for n in range(5)]
    found = topology(missing)
    assert found.message.endswith("and 2 more")
    assert "--declare" in (found.do or "")
    assert "--check" in (topology([TopologyDifference("queue 1", "other")]).do or "")
    assert permissions("write: ACCESS_REFUSED").status is CheckStatus.ERROR


def test_missing_bindings_fail_and_foreign_ones_are_warnings() -> None:
    gone = TopologyDifference("binding 1", "is missing", missing=True, do="declare it")
    strange = TopologyDifference.warning("binding 2", "is none of ours", "unbind it")
    found = bindings(TopologyDiff(bindings=(strange, gone), compared=True))
    assert found is not None
    assert (found.status, found.message, found.do) == (
        CheckStatus.ERROR,
        "binding 1 is missing",
        "declare it",
    )
    found = bindings(TopologyDiff(bindings=(strange,), compared=True))
    assert found is not None
    assert (found.status, found.do) == (CheckStatus.WARNING, "unbind it")
    found = bindings(TopologyDiff(compared=True))
    assert found is not None
    assert found.status is CheckStatus.OK


def test_bindings_that_could_not_be_compared_are_no_fault() -> None:
    found = bindings(TopologyDiff(not_compared=BindingsUnavailable("no answer", "name another")))
    assert found is not None
    assert (found.status, found.message, found.do) == (
        CheckStatus.WARNING,
        "not compared: no answer",
        "name another",
    )
    assert bindings(TopologyDiff()) is None


def at(reported: float, took: float = 0.0) -> CheckResult:
    """The broker reports a second after noon's; the query began at noon and took `took` seconds."""
    noon = NOON.replace(microsecond=0)
    return broker_clock(BrokerTime(noon, noon + timedelta(seconds=reported), noon + timedelta(seconds=took)))


def test_the_brokers_clock_may_be_two_seconds_and_its_resolution_apart() -> None:
    assert at(0).message == "this machine and the broker are at most 1.0 s apart"
    assert at(2).status is CheckStatus.OK
    assert at(-3).status is CheckStatus.OK  # its second ends two seconds before the query
    assert (at(3).status, at(3).message) == (
        CheckStatus.ERROR,
        "this machine is at least 3.0 s behind the broker",
    )
    assert (at(-4).status, at(-4).message) == (
        CheckStatus.ERROR,
        "this machine is at least 3.0 s ahead of the broker",
    )
    assert at(3, took=1).status is CheckStatus.OK  # it may have said so in the end


def test_a_broker_without_a_clock_is_a_warning() -> None:
    assert broker_clock("ACCESS_REFUSED").status is CheckStatus.WARNING


def test_clocks_may_be_a_second_apart() -> None:
    assert clocks(NOON, NOON + timedelta(seconds=0.5)).status is CheckStatus.OK
    ahead = clocks(NOON + timedelta(minutes=3), NOON)
    assert (ahead.status, ahead.message) == (CheckStatus.ERROR, "this machine is 3 min ahead of the database")


def test_agents_that_miss_three_heartbeats_are_not_alive() -> None:
    row = agent_row(running=3)
    assert agents([row], after(10)).message == "1 alive, 3 attempts running, 10 slots"
    assert agents([row], after(60)).message == "no agent is alive; the last heartbeat was 1 min ago"
    assert check_served_types([row], [], NOON).status is CheckStatus.WARNING

    refused = replace(row, trouble="exchange warrener.heartbeats refuses its heartbeats")
    assert not check_agents_in_trouble([row], NOON)
    (found,) = check_agents_in_trouble([refused], NOON)
    assert (found.status, found.message) == (CheckStatus.ERROR, f"a1 takes no attempts: {refused.trouble}")
    assert not check_agents_in_trouble([refused], after(60)), "it is gone"


def test_the_limits_of_this_machine_are_shown_with_the_reason(tmp_path: Path) -> None:
    limits, users = check_isolation(lambda: tmp_path)
    assert limits.message.startswith("rlimits")
    assert f"{tmp_path}/cgroup.controllers cannot be read" in limits.message
    for name, content in (("controllers", "memory pids"), ("procs", ""), ("subtree_control", "memory pids")):
        (tmp_path / f"cgroup.{name}").write_text(content)
    limits, _ = check_isolation(lambda: tmp_path)
    assert limits.message == f"control group {tmp_path}, and rlimits"
    assert "user" in users.message


def test_a_queue_whose_agents_differ_is_named_while_jobs_are_given_back() -> None:
    incident = IncidentRow(
        fingerprint="queue.mixed:default:new",
        kind=MIXED_QUEUE,
        subject="default",
        job_type="new",
        sample={"text": "jobs of new wait in queue default"},
        times=1,
        first_seen_at=NOON,
        last_seen_at=NOON,
        wake_at=None,
    )
    (found,) = check_mixed_queues([incident], after(300))
    assert (found.status, found.message) == (CheckStatus.ERROR, "jobs of new wait in queue default")
    assert found.do == "start an agent of queue default that knows new"
    assert not check_mixed_queues([incident], after(600)), "none was given back since"
