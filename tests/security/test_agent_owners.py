"""Job types, agent ids and attempts belong to users of the broker: attacks by an agent's user who may publish
all that agents publish, on real services. The one permission that refuses more stands with its test."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import aiormq
import pytest
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.store_queries import agents_of, incidents_of, look, parked_in, rows_of, state_of
from tests.acceptance.warren import Warren, until
from tests.broker_access import publish
from tests.faults.broker_users import BrokerUser
from tests.security.attacks import attack
from tests.servers.kinds import RabbitMQServer

from warrener_client import RequestRejected, SyncClient, SyncJob
from warrener_contracts import topology
from warrener_contracts.messages import EVENT_TYPE
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.parked.rows import ParkedMessage


@pytest.fixture(scope="module")
def cashier(broker: RabbitMQServer, shared_warren: Warren) -> Iterator[BrokerUser]:
    """The user of the agent."""
    user = BrokerUser(broker, shared_warren.broker_url)
    yield user
    user.remove()


@pytest.fixture(scope="module")
def mallory(broker: RabbitMQServer, shared_warren: Warren) -> Iterator["Mallory"]:
    """The user of somebody else's agent."""
    user = BrokerUser(broker, shared_warren.broker_url)
    yield Mallory(user)
    user.remove()


@pytest.fixture(scope="module")
def warren(shared_warren: Warren, cashier: BrokerUser) -> Iterator[Warren]:
    """Services, and an agent of the cashier, which end before their users are gone."""
    one, owners = shared_warren, {"payouts.*": cashier.name}
    make_gate(one.folder / "go")
    one.start("scheduler", WARRENER_SCHEDULER_JOB_TYPE_USERS=json.dumps(owners))
    one.start("supervisor")
    one.start("agent", "tests.security.agent_handlers", "--slots", "1", WARRENER_BROKER_URL=cashier.url)
    one.wait_ready()
    yield one
    one.end()


@pytest.fixture(scope="module")
def payment(warren: Warren) -> Iterator[SyncJob]:
    """A payment that the cashier's agent runs during all tests, and that counts at last."""
    with SyncClient(warren.broker_url, source="shop") as client:
        job = client.request("pay", {"invoice": 7})
        until(lambda: state_of(warren, job.job_id) is JobState.RUNNING, "the payment to run")
        yield job
        open_gate(warren.folder / "go")
        assert job.result(timeout=60) == 7


def type_of(warren: Warren, name: str) -> JobTypeRow:
    return look(warren, lambda store: store.job_types([name]))[name]


def agent_of(warren: Warren, name: str) -> AgentRow | None:
    return next((row for row in agents_of(warren) if row.agent_id == name), None)


def until_seen(warren: Warren, agent_id: str, pid: int) -> None:
    """Wait until the last heartbeat of this agent came from this process."""
    until(lambda: (row := agent_of(warren, agent_id)) and row.pid == pid, "the heartbeat")


class Mallory:
    """Sends what agents send, in any name."""

    def __init__(self, user: BrokerUser) -> None:
        self.user, self.agent_id = user, f"agent-{user.name}"

    def send(self, exchange: str, key: str, kind: str, data: dict[str, Any], **properties: str) -> str:
        """Publish one event; return its id."""
        name = str(uuid4())
        event = {"specversion": "1.0", "id": name, "source": "mallory", "type": kind, "data": data}
        event["time"] = datetime.now(UTC).isoformat()
        publish(
            self.user.url, exchange, key, json.dumps(event).encode(), content_type=EVENT_TYPE, **properties
        )
        return name

    def report(self, kind: str, job_id: UUID, *, user: bool = True, **data: Any) -> str:
        """Report about an attempt of somebody else's job."""
        now = datetime.now(UTC)
        body = {"job_id": str(job_id), "attempt": 1, "job_type": "pay", "agent_id": self.agent_id}
        if kind in {"succeeded", "failed", "started", "cancelled"}:
            body["started_at"] = (now + timedelta(seconds=1)).isoformat()
        if kind in {"succeeded", "failed", "cancelled"}:
            body["finished_at"] = (now + timedelta(seconds=1)).isoformat()
        body |= {"recorded_attempt": 1, "result": 0} if kind == "succeeded" else {}
        body |= {"error": {"kind": "error", "type": "E", "message": "no"}} if kind == "failed" else {}
        body |= {"reason": "draining"} if kind in {"released", "cancelled"} else {}
        body |= data
        key = f"attempt.{kind}.{body['job_type']}"
        properties = {"user_id": self.user.name} if user else {}
        return self.send(topology.STATUS, key, f"attempt.{kind}.v1", body, **properties)

    def announce(
        self, declared: dict[str, Any], key: str = "agent.announced", *, user: str | None = None, **data: Any
    ) -> str:
        """Announce one job type."""
        body = {"agent_id": self.agent_id, "queues": [declared["queue"]], "job_types": [declared], **data}
        properties = {} if user is None else {"user_id": user}
        return self.send(topology.REQUESTS, key, "agent.announced.v1", body, **properties)

    def beat(
        self, agent_id: str, pid: int, *running: UUID, user: bool = True, queue: str = "payments"
    ) -> str:
        """Send a heartbeat."""
        listed = [{"job_id": str(job_id), "attempt": 1} for job_id in running]
        body = {"agent_id": agent_id, "host": "h", "pid": pid, "queues": [queue], "slots": 1}
        body |= {"running": listed, "started_at": datetime.now(UTC).isoformat(), "draining": True}
        properties = {"user_id": self.user.name} if user else {}
        return self.send(topology.HEARTBEATS, f"agent.{agent_id}", "agent.heartbeat.v1", body, **properties)


def declares(name: str = "pay", queue: str = "payments", **changes: Any) -> dict[str, Any]:
    return {"name": name, "queue": queue, "arguments_schema": {"type": "object"}, **changes}


def parked(warren: Warren, name: str) -> ParkedMessage:
    """The parked event of this id."""
    return until(
        lambda: next((one for one in parked_in(warren) if name.encode() in one.body), None),
        "the event to be parked",
    )


def is_foreign(message: ParkedMessage) -> bool:
    return message.reason == "impossible" and ", got one of " in message.detail


def still_runs(warren: Warren, job: SyncJob) -> bool:
    row = rows_of(warren, [job.job_id])[job.job_id]
    return (row.state, row.attempt, row.agent_id) == (JobState.RUNNING, 1, agent_of_cashier(warren))


def agent_of_cashier(warren: Warren) -> str:
    return next(row.agent_id for row in agents_of(warren) if "quotes" in row.queues)


UNUSABLE: Any = {"not": {}}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "declared",
    [declares("quote", "quotes", arguments_schema=UNUSABLE), declares("quote", "payments")],
    ids=["schema", "queue"],
)
@attack(
    "agent", "stop another user's job type by a schema that refuses all", refused="a job type has one user"
)
@attack("agent", "move another user's job type to a queue of its own", refused="a job type has one user")
def test_a_declaration_of_another_user_does_not_count_and_is_reported(
    warren: Warren, mallory: Mallory, cashier: BrokerUser, declared: dict[str, Any], *, named: bool
) -> None:
    before = type_of(warren, "quote")
    assert before.broker_user == cashier.name
    seen = [row.times for row in incidents_of(warren) if row.kind == "job_type.conflict"]
    mallory.agent_id = f"agent-{uuid4().hex}"
    later = datetime.now(UTC) + timedelta(hours=1)
    mallory.announce(declared, user=mallory.user.name if named else None, started_at=later.isoformat())
    until(
        lambda: [row.times for row in incidents_of(warren) if row.kind == "job_type.conflict"] > seen,
        "an incident",
    )
    assert type_of(warren, "quote") == before
    with SyncClient(warren.broker_url, source="shop") as client:
        assert client.request("quote", {"invoice": 3}).result(timeout=60) == 3


@attack("agent", "be the first to announce another user's job type", refused="a setting names its user")
def test_a_type_that_the_setting_gives_to_a_user_is_announced_by_nobody_else(
    warren: Warren, mallory: Mallory, cashier: BrokerUser
) -> None:
    for user in (mallory.user.name, None):
        mallory.announce(declares("payouts.send", "hers"), user=user)
    until(lambda: any(row.subject == "payouts.send" for row in incidents_of(warren)), "an incident")
    assert not look(warren, lambda store: store.job_types(["payouts.send"]))
    Mallory(cashier).announce(declares("payouts.send", "payments"), user=cashier.name)
    until(lambda: look(warren, lambda store: store.job_types(["payouts.send"])), "its user's announcement")
    assert type_of(warren, "payouts.send").broker_user == cashier.name


@attack(
    "agent",
    "declare a job type of any queue by a retry rule to its own",
    refused="key and queue are compared",
)
def test_a_retry_rule_to_ones_own_queue_declares_no_job_type_of_another_queue(
    warren: Warren, mallory: Mallory
) -> None:
    name = f"led.{uuid4().hex[:8]}"
    led = declares(name, "quotes", policy={"retry_rules": [{"errors": ["memory"], "queue": "etl"}]})
    own = declares(f"{name}.own", "etl")
    data = {"queues": ["etl"], "queue": "etl", "job_types": [led, own]}
    mallory.announce(own, "agent.announced.etl", user=mallory.user.name, **data)
    until(lambda: look(warren, lambda store: store.job_types([f"{name}.own"])), "the announcement")
    assert not look(warren, lambda store: store.job_types([name]))


@attack(
    "agent",
    "have requests name any queue by listing it in a heartbeat",
    refused="such a queue needs a consumer",
)
def test_a_queue_that_a_heartbeat_alone_names_is_named_by_no_request(
    warren: Warren, mallory: Mallory
) -> None:
    mallory.agent_id = f"agent-{uuid4().hex}"
    mallory.beat(mallory.agent_id, 1, queue="ghost")
    until(lambda: agent_of(warren, mallory.agent_id), "the heartbeat")
    with SyncClient(warren.broker_url, source="shop") as client:
        job = client.request("quote", {"invoice": 3}, queue="ghost")
        with pytest.raises(RequestRejected, match="queue: expected one that an agent has announced"):
            job.result(timeout=60)


@attack(
    "agent", "bring an older edition back by speaking last", refused="the agent that started last declares"
)
def test_of_one_user_an_agent_that_started_earlier_does_not_count(
    warren: Warren, mallory: Mallory, cashier: BrokerUser
) -> None:
    before = type_of(warren, "quote")
    assert before.started_at is not None
    older = Mallory(cashier)
    name = older.announce(
        declares("quote", "quotes", arguments_schema=UNUSABLE),
        user=cashier.name,
        started_at=(before.started_at - timedelta(hours=1)).isoformat(),
    )
    marker = f"marker.{name[:8]}"
    mallory.announce(declares(marker, "markers"), user=mallory.user.name)
    until(lambda: look(warren, lambda store: store.job_types([marker])), "a later announcement")
    assert type_of(warren, "quote") == before


@attack("agent", "announce in another user's name", refused="the broker compares `user_id`")
@attack(
    "agent",
    "report the success of another user's attempt in that user's name",
    refused="the broker compares `user_id`",
)
def test_the_broker_refuses_the_name_of_another_user(
    warren: Warren, mallory: Mallory, cashier: BrokerUser, payment: SyncJob
) -> None:
    with pytest.raises(aiormq.exceptions.ChannelPreconditionFailed, match="user_id"):
        mallory.announce(declares(), user=cashier.name)
    with pytest.raises(aiormq.exceptions.ChannelPreconditionFailed, match="user_id"):
        mallory.send(
            topology.STATUS, "attempt.succeeded.pay", "attempt.succeeded.v1", {}, user_id=cashier.name
        )
    assert still_runs(warren, payment)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["succeeded", "failed", "released", "started", "cancelled"])
@attack(
    "agent",
    "report that an attempt of another user's agent has succeeded",
    refused="its agent's user holds it",
)
@attack(
    "agent", "report that an attempt of another user's agent has failed", refused="its agent's user holds it"
)
@attack("agent", "release an attempt of another user's agent", refused="its agent's user holds it")
@attack("agent", "take an attempt over from another user's agent", refused="its agent's user holds it")
@attack("agent", "end an attempt of another user's agent as cancelled", refused="its agent's user holds it")
def test_a_report_about_an_attempt_that_another_users_agent_holds_is_parked(
    warren: Warren, mallory: Mallory, payment: SyncJob, kind: str, *, named: bool
) -> None:
    found = parked(warren, mallory.report(kind, payment.job_id, user=named))
    assert is_foreign(found), found.detail
    assert still_runs(warren, payment)


@pytest.mark.parametrize("named", [True, False])
@attack("agent", "report under the id of another user's agent", refused="an agent id has one user")
def test_a_report_under_a_stolen_agent_id_is_parked(
    warren: Warren, mallory: Mallory, payment: SyncJob, *, named: bool
) -> None:
    stolen = agent_of_cashier(warren)
    found = parked(warren, mallory.report("succeeded", payment.job_id, user=named, agent_id=stolen))
    assert is_foreign(found), found.detail
    assert still_runs(warren, payment)


@attack("agent", "take the id of another user's agent while that restarts", refused="the id names its user")
def test_an_id_that_names_another_user_is_taken_by_nobody(
    warren: Warren, mallory: Mallory, cashier: BrokerUser, payment: SyncJob
) -> None:
    assert agent_of_cashier(warren).startswith(f"{cashier.name}@")
    stolen = f"{cashier.name}@gone-{uuid4().hex[:8]}"
    mallory.beat(stolen, 1)
    mallory.agent_id = f"agent-{uuid4().hex}"
    mallory.beat(mallory.agent_id, 2)
    until(lambda: agent_of(warren, mallory.agent_id), "a later heartbeat")
    assert agent_of(warren, stolen) is None
    found = parked(warren, mallory.report("succeeded", payment.job_id, agent_id=stolen))
    assert is_foreign(found), found.detail


@attack(
    "agent",
    "take queued jobs of another user by listing them in a heartbeat",
    refused="a job type has one user",
)
@attack(
    "agent", "end a job of another type under the key of its own", refused="the type of the job is compared"
)
def test_a_report_under_the_key_of_another_job_type_is_parked(
    warren: Warren, mallory: Mallory, payment: SyncJob
) -> None:
    """A topic permission names the types of an agent's jobs, and this one is among them."""
    with SyncClient(warren.broker_url, source="shop") as client:
        waits = client.request("pay", {"invoice": 8})
        until(lambda: state_of(warren, waits.job_id) is JobState.QUEUED, "the second payment to wait")
        found = parked(warren, mallory.report("succeeded", waits.job_id, job_type="own.type"))
        assert is_foreign(found), found.detail
        assert state_of(warren, waits.job_id) is JobState.QUEUED
        mallory.agent_id = f"agent-{uuid4().hex}"
        for pid in (1, 2):  # the first has been looked up when the second is stored
            mallory.beat(mallory.agent_id, pid, waits.job_id)
            until_seen(warren, mallory.agent_id, pid)
        assert state_of(warren, waits.job_id) is JobState.QUEUED
        client.cancel(waits.job_id)


@pytest.mark.parametrize("named", [True, False])
@attack("agent", "end another user's agent by a heartbeat in its name", refused="an agent id has one user")
def test_a_heartbeat_under_a_stolen_agent_id_is_dropped(
    warren: Warren, mallory: Mallory, payment: SyncJob, *, named: bool
) -> None:
    stolen = agent_of_cashier(warren)
    mallory.beat(stolen, 1, user=named)
    mallory.agent_id = f"agent-{uuid4().hex}"
    mallory.beat(mallory.agent_id, 2)
    until(lambda: agent_of(warren, mallory.agent_id), "a later heartbeat")
    row = agent_of(warren, stolen)
    assert row is not None
    assert (row.draining, row.pid == 1) == (False, False)
    assert still_runs(warren, payment)


@attack("agent", "announce a queue that its role does not name", refused="topic permission of the broker")
@attack(
    "agent",
    "announce job types of another queue under the key of its own",
    refused="key and queue are compared",
)
def test_an_agent_announces_the_queues_of_its_role_alone(warren: Warren, broker: RabbitMQServer) -> None:
    user = BrokerUser(broker, warren.broker_url)
    user.permit_keys(topology.REQUESTS, r"^agent\.announced\.own$")
    one = Mallory(user)
    for key in ("agent.announced", "agent.announced.payments"):
        with pytest.raises(aiormq.exceptions.ChannelAccessRefused):
            one.announce(declares(), key, queue="payments")
    for data in ({"queue": "own"}, {"queue": "payments"}, {}):
        found = parked(warren, one.announce(declares(), "agent.announced.own", **data))
        assert found.reason == "routing_key_mismatch", found.detail
    user.remove()


@attack(
    "agent",
    "have jobs of another user run by a schedule in its code",
    refused="a schedule has its job type's user",
)
def test_a_schedule_for_another_users_job_type_is_not_adopted(warren: Warren, mallory: Mallory) -> None:
    schedule = {
        "name": "drain",
        "rule": {"kind": "interval", "every": "PT1S"},
        "job_type": "pay",
        "arguments": {"invoice": 0},
    }
    marker = f"marker.{uuid4().hex[:8]}"
    mallory.announce(declares(marker, "markers"), user=mallory.user.name, schedules=[{"schedule": schedule}])
    refused, name = warren.services[0].records, "schedules.declaration_foreign"
    until(lambda: "drain" in [one["schedule"] for one in refused(name)], "the schedule to be refused")
    assert look(warren, lambda store: store.schedules(["drain"])) == {}


def test_an_agent_whose_user_may_announce_its_queue_alone_does_so(
    warren: Warren, broker: RabbitMQServer
) -> None:
    user = BrokerUser(broker, warren.broker_url)
    user.permit_keys(topology.REQUESTS, r"^agent\.announced\.tests$")
    handlers = warren.folder / "restricted_handlers.py"
    handlers.write_text(
        "from warrener_agent import Agent\n\nagent = Agent()\n\n\n"
        '@agent.job("tested", queue="tests")\nasync def tested() -> int:\n    return 5\n'
    )
    agent = warren.start("agent", "restricted_handlers", WARRENER_BROKER_URL=user.url)
    warren.wait_ready()
    with SyncClient(warren.broker_url, source="shop") as client:
        until(lambda: look(warren, lambda store: store.job_types(["tested"])), "its announcement")
        assert client.request("tested").result(timeout=60) == 5
    assert type_of(warren, "tested").broker_user == user.name
    assert agent.end() == 0
    user.remove()
