"""Findings of the doctor's checks, what the management API answers, and what is late; without a broker."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from services.console.tests.explanations.example_facts import agent, job_type, queue, silent, system
from tests.store_rows import NOON, after, agent_row, queued_job

from warrener.command.doctor import check_isolation, run_bounded
from warrener.context import pick_endpoints, resolve_endpoints
from warrener.doctor import CheckResult, CheckStatus, broker, ok, store, topology
from warrener.doctor.inspector import BrokerTime, QueueInfo
from warrener.doctor.management_api import (
    BindingsUnavailable,
    ManagementApi,
    explain_refusal,
    parse_bindings,
    resolve_management_api,
)
from warrener.errors import CommandError
from warrener.explanations.facts import QueueSubject
from warrener.settings import CommandSettings
from warrener_contracts import topology as wire
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.retryability import CODE_CHANGED, UNKNOWN_JOB_TYPE
from warrener_contracts.state_machine import JobState
from warrener_runtime.running_up import Endpoints
from warrener_store.incidents.rows import MIXED_QUEUE, IncidentRow
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

OK, WARNING, ERROR = CheckStatus.OK, CheckStatus.WARNING, CheckStatus.ERROR
ALL = {exchange.name for exchange in wire.EXCHANGES}
HEADS = {"default": QueueHead("default", after(-240), unpublished=False)}


def finding(found: CheckResult) -> tuple[CheckStatus, str]:
    return found.status, found.message


# -- the broker ----------------------------------------------------------------------------------------------


def test_old_and_other_brokers_are_recognised() -> None:
    names = ("RabbitMQ 3.10.8", "RabbitMQ 4.3.6", "RabbitMQ 3.9.29", "LavinMQ 2.1.0")
    assert [broker.version(name).status for name in names] == [OK, OK, ERROR, WARNING]


def test_a_queue_without_consumers_shows_what_waits() -> None:
    seen, queue = (QueueInfo(messages=7, consumers=0), QueueInfo(0, 2), None), wire.REQUESTS_QUEUE
    empty, *others = [broker.check_consumers("scheduler", "scheduler", queue, each) for each in seen]
    assert finding(empty) == (ERROR, "no consumer of warrener.requests, 7 messages wait")
    assert [other.status for other in others] == [OK, ERROR]


def test_differences_are_counted_and_what_helps_depends_on_them() -> None:
    missing = [topology.TopologyDifference(f"queue {n}", "is missing", missing=True) for n in range(5)]
    found = broker.topology(missing)
    assert found.message.endswith("and 2 more")
    assert "topology apply" in (found.do or "")
    assert "--check" in (broker.topology([topology.TopologyDifference("queue 1", "other")]).do or "")
    assert broker.permissions("write: ACCESS_REFUSED").status is ERROR


def test_missing_bindings_fail_and_foreign_or_unknown_ones_are_warnings() -> None:
    gone = topology.TopologyDifference("binding 1", "is missing", missing=True, do="declare it")
    strange = topology.TopologyDifference.warning("binding 2", "is none of ours", "unbind it")
    unknown = BindingsUnavailable("no answer", "name another")
    diff = topology.TopologyDiff
    for compared, *expected in (
        (diff(bindings=(strange, gone), compared=True), ERROR, "binding 1 is missing", "declare it"),
        (diff(bindings=(strange,), compared=True), WARNING, "binding 2 is none of ours", "unbind it"),
        (diff(compared=True), OK, "every queue is bound as this version binds it", None),
        (diff(not_compared=unknown), WARNING, "not compared: no answer", "name another"),
    ):
        found = broker.bindings(compared)
        assert found is not None
        assert [found.status, found.message, found.do] == expected
    assert broker.bindings(diff()) is None, "nothing can be bound"


@pytest.mark.parametrize(
    ("reported", "took", "status", "apart"),
    [
        (0, 0, OK, "and the broker are at most 1.0 s apart"),
        (2, 0, OK, "and the broker are at most 3.0 s apart"),
        (-3, 0, OK, "and the broker are at most 3.0 s apart"),  # its second ended two seconds before
        (3, 0, ERROR, "is at least 3.0 s behind the broker"),
        (-4, 0, ERROR, "is at least 3.0 s ahead of the broker"),
        (3, 1, OK, "and the broker are at most 4.0 s apart"),  # it may have read its clock at the end
    ],
)
def test_the_brokers_clock_may_be_two_seconds_and_its_resolution_apart(
    reported: float, took: float, status: CheckStatus, apart: str
) -> None:
    noon = NOON.replace(microsecond=0)
    time = BrokerTime(noon, noon + timedelta(seconds=reported), noon + timedelta(seconds=took))
    assert finding(broker.broker_clock(time)) == (status, f"this machine {apart}")
    assert broker.broker_clock("ACCESS_REFUSED").status is WARNING


# -- the store -----------------------------------------------------------------------------------------------


def test_clocks_may_be_a_second_apart() -> None:
    assert store.clocks(NOON, NOON + timedelta(seconds=0.5)).status is OK
    ahead = store.clocks(NOON + timedelta(minutes=3), NOON)
    assert finding(ahead) == (ERROR, "this machine is 3 min ahead of the database")


def test_agents_that_miss_three_heartbeats_are_not_alive() -> None:
    row = agent_row(running=3)
    assert store.agents([row], after(10)).message == "1 alive, 3 attempts running, 10 slots"
    assert store.agents([row], after(60)).message == "no agent is alive; the last heartbeat was 1 min ago"
    assert store.check_served_types([row], [], NOON).status is WARNING

    refused = replace(row, trouble="exchange warrener.heartbeats refuses its heartbeats")
    assert not store.check_agents_in_trouble([row], NOON)
    (found,) = store.check_agents_in_trouble([refused], NOON)
    assert finding(found) == (ERROR, f"a1 takes no attempts: {refused.trouble}")
    assert not store.check_agents_in_trouble([refused], after(60)), "it is gone"


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
    unknown = ErrorInfo(kind=ErrorKind.ERROR, type=UNKNOWN_JOB_TYPE, message="a1 does not know new")
    found = store.check_mixed_queue(incident, [queued_job(error=unknown)])
    assert found is not None
    assert finding(found) == (ERROR, "jobs of new wait in queue default")
    assert found.do == "start an agent of queue default that knows new"
    changed = queued_job(error=unknown.model_copy(update={"type": CODE_CHANGED, "message": "expected pay"}))
    found = store.check_mixed_queue(incident, [changed])
    assert found is not None
    assert found.check == "changed code"
    assert finding(found) == (ERROR, "1 job of new cannot go on with the code of queue default: expected pay")
    assert store.check_mixed_queue(incident, []) is None, "its jobs have gone on"


# -- what waits ----------------------------------------------------------------------------------------------


def test_a_queue_with_jobs_or_messages_and_no_consumer_is_named_with_its_cause() -> None:
    down = QueueSubject(system=system(queues=queue(waiting=7), agents=(silent(),)), name="default")
    (found,) = broker.check_queues([replace(down, oldest=after(-240))], HEADS)
    assert (found.check, found.status) == ("queue default", ERROR)
    assert found.message.startswith("No agent of queue default is alive")
    assert found.do == "warrener agent MODULE --queue default"
    assert [found.status for found in broker.check_queues([down], {})] == [ERROR], "of no job in the store"
    empty = QueueSubject(system=system(queues=queue(), agents=(silent(),)), name="default")
    assert broker.check_queues([empty], {}) == [], "nothing waits there"
    (well,) = broker.check_queues([QueueSubject(system=system(), name="default", oldest=after(-1))], HEADS)
    assert finding(well) == (OK, "1 with jobs, each with agents that take them")


def test_a_type_with_waiting_jobs_and_no_agent_that_knows_it_is_named() -> None:
    other = system(agents=(agent(job_types=("flights.list",)),), job_types={"flights.load": job_type()})
    waiting = StateCount(job_type="flights.load", queue="default", state=JobState.RETRYING, jobs=3)
    over = StateCount(job_type="flights.load", queue="default", state=JobState.DEAD, jobs=9)
    (found,) = broker.check_types(other, [waiting, over])
    assert (found.check, found.status) == ("type flights.load", ERROR)
    assert found.message.startswith("No agent of queue default knows flights.load")
    assert found.message.endswith("; 3 jobs waiting")
    assert broker.check_types(other, [over]) == []
    assert broker.check_types(system(), [waiting]) == []


# -- the management API --------------------------------------------------------------------------------------


def test_the_api_is_beside_the_broker_and_used_as_the_brokers_user_unless_a_url_names_others() -> None:
    url = "amqp://ann:p%40ss@rabbit:5673/shop%2Feu?heartbeat=5"
    assert resolve_management_api(url) == ManagementApi("http://rabbit:15672", "ann", "p@ss", "shop/eu", url)
    assert resolve_management_api("amqps://rabbit").url == "https://rabbit:15671"
    assert resolve_management_api("amqp://[::1]").url == "http://[::1]:15672"
    assert resolve_management_api("amqp://rabbit/").virtual_host == "/"

    api = resolve_management_api("amqp://ann:secret@rabbit/shop", "https://ops:o%2Fps@front:8443/rabbit/")
    assert (api.url, api.user, api.password) == ("https://front:8443/rabbit", "ops", "o/ps")
    assert api.virtual_host == "shop"
    assert resolve_management_api("amqp://ann:secret@rabbit", "http://front").user == "ann"
    assert "o/ps" not in repr(api)
    assert "secret" not in repr(api)


def test_the_setting_speaks_of_the_brokers_that_are_named_and_not_of_the_private_one_of_up() -> None:
    up = Endpoints("amqp://up/", "sqlite:///up.db", "sqlite:///up-ledger.db")
    settings = CommandSettings(broker_url="amqp://set/", management_url="http://set:15672")
    assert pick_endpoints(None, None, None, settings).management_url == "http://set:15672"
    assert pick_endpoints("amqp://said/", None, up, settings).management_url == "http://set:15672"
    assert pick_endpoints(None, None, up, settings).management_url is None
    assert pick_endpoints(None, None, up, settings, "http://said").management_url == "http://said"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("url", ["rabbit:15672", "amqp://rabbit", "http://", "http://rabbit:port"])
def test_a_url_that_is_none_is_a_usage_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="--management: expected a URL like http://host:15672, got"):
        resolve_endpoints(management=url)
    monkeypatch.setenv("WARRENER_MANAGEMENT_URL", url)
    with pytest.raises(CommandError, match="WARRENER_MANAGEMENT_URL: expected a URL like http://host:15672"):
        resolve_endpoints()


_USER = b'{"reason": "Not management user"}'


@pytest.mark.parametrize(
    ("code", "body", "why", "do"),
    [
        (401, _USER, "user 'ann' see virtual host 'shop' (401: Not", "set_user_tags ann"),
        (404, b"", "knows no virtual host 'shop', or is no management API", "correct --management"),
        (503, b"<html>", "expected bindings from http://rabbit:15672, got 503", "log"),
        (302, b"[]", "got 302", "correct --management"),
    ],
)
def test_each_refusal_shows_the_reason_and_what_to_do(code: int, body: bytes, why: str, do: str) -> None:
    result = explain_refusal(resolve_management_api("amqp://ann:secret@rabbit/shop"), code, body)
    assert why in result.why
    assert do in result.do
    assert "secret" not in result.why + result.do


def listed(queue: str, *bound: wire.Binding, kind: str = "queue") -> list[dict[str, str]]:
    """As the API lists them, with the broker's own binding of every queue."""
    return [
        {"source": each.exchange, "destination": queue, "destination_type": kind, "routing_key": each.key}
        for each in (wire.Binding("", queue), *bound)
    ]


def test_bindings_that_are_missing_or_strange_are_found() -> None:
    etl, strange = wire.dispatch_queue("etl"), wire.Binding(wire.EVENTS, "x.#")
    found_there = [
        *listed(wire.REQUESTS_QUEUE.name),
        *listed(wire.STATUS_QUEUE.name, *wire.STATUS_QUEUE.bindings, strange),
        *listed(etl.name, wire.Binding(wire.DISPATCH, "etl.#")),
        *listed("others", wire.Binding(wire.EVENTS, "#"), kind="exchange"),
        *listed(wire.TRIGGERS_QUEUE.name, wire.Binding("airport", "landed.*")),
    ]
    seen = parse_bindings(json.dumps(found_there).encode())
    assert topology.dispatch_queues(seen) == (etl,)
    found = topology.compare_bindings([wire.REQUESTS_QUEUE, wire.STATUS_QUEUE, etl], ALL, seen)
    assert [(each.what, each.how, each.status) for each in found] == [
        ("binding warrener.requests # → warrener.requests", "is missing", "error"),
        ("binding warrener.events x.# → warrener.status", "is none of ours", "warning"),
        ("binding warrener.return *.etl.# → warrener.queue.etl", "is missing", "error"),
    ]
    assert "topology apply" in (found[0].do or "")
    assert "agent of 'etl'" in (found[2].do or "")
    without = topology.compare_bindings([wire.REQUESTS_QUEUE, etl], ALL - {wire.REQUESTS, wire.RETURN}, seen)
    assert without == []  # the exchanges are reported as missing already
    assert topology.compare_bindings([wire.TRIGGERS_QUEUE], ALL, seen) == [], "schedules wait for these"


def test_the_api_of_another_broker_is_not_compared_with() -> None:
    management = resolve_management_api("amqp://rabbit")
    with pytest.raises(BindingsUnavailable, match="that of another broker"):
        topology.check_same_broker(management, [wire.REQUESTS_QUEUE], {"theirs": frozenset()})


def test_18_replicas_are_compared_with_the_nodes_of_the_cluster() -> None:
    def compared(nodes: str, *queues: tuple[str, str], down: str = "") -> list[tuple[str, str]]:
        """Queues as leader and members; names of nodes have one letter."""
        there = [topology.Node(name, running=name not in down) for name in nodes]
        rows = [topology.QueueReplicas("q", frozenset(members), leader) for leader, members in queues]
        return [(one.what, one.how) for one in topology.compare_replicas(there, rows)]

    assert compared("a", ("a", "a")) == [], "a single node needs none"
    assert compared("abcde", ("a", "abc"), ("d", "cde")) == [], "three are enough"
    assert compared("ab", ("a", "ab"), down="b") == [("node b", "is not running")]


# -- this machine, and what is late --------------------------------------------------------------------------


def test_the_limits_of_this_machine_are_shown_with_the_reason(tmp_path: Path) -> None:
    limits, users = check_isolation(lambda: tmp_path)
    assert limits.message.startswith("rlimits")
    assert f"{tmp_path}/cgroup.controllers cannot be read" in limits.message
    for name, content in (("controllers", "memory pids"), ("procs", ""), ("subtree_control", "memory pids")):
        (tmp_path / f"cgroup.{name}").write_text(content)
    limits, _ = check_isolation(lambda: tmp_path)
    assert limits.message == f"control group {tmp_path}, and rlimits"
    assert "user" in users.message


async def test_a_frozen_subject_does_not_hide_the_findings_of_others() -> None:
    async def frozen() -> AsyncIterator[CheckResult]:
        yield ok("broker", "it answers")
        await asyncio.Event().wait()

    async def broken() -> AsyncIterator[CheckResult]:
        if True:
            raise CommandError("expected a store, got none", do="start it")
        yield ok("store", "never")

    async def works() -> AsyncIterator[CheckResult]:
        yield ok("installation", "it is ours")

    groups = {"broker": frozen(), "store": broken(), "installation": works()}
    found, all_ended = await run_bounded(groups, timeout=0.2)
    assert [(each.check, each.status) for each in found] == [
        ("broker", OK),
        ("broker", ERROR),
        ("store", ERROR),
        ("installation", OK),
    ]
    assert "after the check of broker: all that follows was not looked at" in found[1].message
    assert not all_ended


def test_the_command_ends_although_the_broker_only_accepts_connections(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}/"
        url = f"sqlite:///{here}/state.db"
        warrener = (sys.executable, "-m", "warrener")
        subprocess.run([*warrener, "migrate", "--store", url], check=True, capture_output=True)
        call = [*warrener, "doctor", "--broker", where, "--store", url]
        ended = subprocess.run(call, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "no answer within 8 s" in ended.stdout
    assert "✓ store" in ended.stdout
    assert "Traceback" not in ended.stderr
