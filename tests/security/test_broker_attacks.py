"""Users of the broker who hold one role each do their work, and reach for more than that."""

import json
import re

import aiormq
import pytest
from pamqp.commands import Basic
from tests.broker_access import channel_on, count_messages
from tests.faults.broker_users import BrokerUser
from tests.security.attacks import attack
from tests.security.broker_attacks import (
    GUESTS,
    HEX,
    KEYS,
    Attempt,
    BrokerAttack,
    bind,
    broker_attacks,
    delete,
    publish,
    read,
)
from tests.security.guests import FOREIGN, OWN, PIECES, House, empty, refusals_of_messages, smuggle
from tests.servers.kinds import RabbitMQServer
from tools.reference.golden import golden_events
from typer.testing import CliRunner

from warrener.command.app import app
from warrener.context import ResolvedEndpoints
from warrener.operations.system import SharedInspector
from warrener_contracts import topology
from warrener_contracts.events import AttemptDispatched, AttemptSucceeded, JobRequested
from warrener_contracts.inbox import Inbox
from warrener_contracts.messages import encode
from warrener_contracts.permissions import BrokerRole, Holder
from warrener_contracts.topology import control_queue
from warrener_runtime.bus import open_bus

_REFUSED = re.compile(
    r"ACCESS_REFUSED - (?:\w+ )?access to (?P<topic>topic '[^']*' in )?"
    r"(?P<kind>queue|exchange) '(?P<name>[^']*)'"
)


def guest(house: House, role: BrokerRole) -> BrokerUser:
    """The user who holds this role."""
    return house.user(role, **GUESTS[role].options)


async def carry_out(house: House, role: BrokerRole, *attempts: Attempt) -> None:
    """Carry attempts out by one channel of the user who holds this role."""
    user = guest(house, role)
    async with channel_on(user.url) as channel:
        for attempt in attempts:
            await attempt.call(channel, user.name, GUESTS[role].own_queue.replace("USER", user.name))


@pytest.mark.parametrize("one", [pytest.param(one, id=f"{one.who} {one.does}") for one in broker_attacks()])
async def test_the_broker_refuses(house: House, one: BrokerAttack) -> None:
    with pytest.raises(aiormq.exceptions.ChannelAccessRefused) as error:
        await carry_out(house, one.who, one.attempt)
    found = _REFUSED.search(str(error.value))
    assert found is not None, error.value
    assert (found["topic"] is not None) == (one.refused == KEYS), error.value
    exists = f"{found['kind']} {found['name']}" in PIECES  # RabbitMQ refuses a misspelled name as well
    assert exists is not one.attempt.makes_piece, error.value


@attack("agent", "run a job on agents of another queue by a dead letter", refused="the agent's inbox")
async def test_agent_lets_a_dispatch_die_into_the_delay_queues(house: House) -> None:
    dispatch = golden_events()["attempt.dispatched.v1"]
    key, queue = f"1s.{FOREIGN}.{dispatch.data.job_type}", "warrener.queue.payroll"
    await smuggle(house, guest(house, BrokerRole.AGENT), queue, "warrener.delay", key, body=encode(dispatch))
    [detail] = await refusals_of_messages(house, queue, Inbox(queue, {AttemptDispatched}))
    assert "got the dead letters of warrener.ping." in detail


@attack("agent", "report a foreign job's success by a dead letter", refused="the supervisor's inbox")
async def test_agent_lets_a_report_die_under_a_foreign_key(house: House) -> None:
    report = golden_events()["attempt.succeeded.v1"]
    key, queue = report.routing_key, "warrener.status"
    await smuggle(house, guest(house, BrokerRole.AGENT), queue, queue, key, body=encode(report))
    [detail] = await refusals_of_messages(house, queue, Inbox(queue, {AttemptSucceeded}))
    assert "got the dead letters of warrener.ping." in detail


@attack("agent", "delete the control queue of a peer", refused="an exclusive queue")
async def test_agent_deletes_the_control_queue_of_a_peer(house: House) -> None:
    control = control_queue(f"{guest(house, BrokerRole.AGENT).name}@etl-2", [OWN])
    async with channel_on(house.url) as channel:
        await channel.queue_declare(control.name, exclusive=True)
        with pytest.raises(aiormq.exceptions.ChannelLockedResource):
            await carry_out(house, BrokerRole.AGENT, delete(control.name))


@attack("asker", "request a foreign type by a dead letter of its own queue", refused="the scheduler's inbox")
async def test_asker_lets_a_request_die_under_a_foreign_key(house: House) -> None:
    request = golden_events()["job.requested.v1"]
    key, queue = request.data.job_type, "warrener.requests"
    await smuggle(house, guest(house, BrokerRole.ASKER), queue, queue, key, body=encode(request))
    [detail] = await refusals_of_messages(house, queue, Inbox(queue, {JobRequested}))
    assert "got the dead letters of warrener.ping." in detail


@attack("asker", "request a foreign type by a second key in the header CC", refused="the scheduler's inbox")
async def test_asker_adds_a_key_by_a_header(house: House) -> None:
    """RabbitMQ 3.10 compares no key of that header, and delivers under the first one; later ones refuse."""
    body, key = encode(golden_events()["job.requested.v1"]), golden_events()["job.requested.v1"].routing_key
    properties = Basic.Properties(headers={"CC": [key]}, content_type="application/cloudevents+json")
    async with channel_on(guest(house, BrokerRole.ASKER).url) as channel:
        try:
            await channel.basic_publish(
                body, exchange="warrener.requests", routing_key="billing.charge", properties=properties
            )
        except aiormq.exceptions.ChannelAccessRefused:
            return
    [detail] = await refusals_of_messages(
        house, "warrener.requests", Inbox("warrener.requests", {JobRequested})
    )
    assert "got warrener.requests with billing.charge" in detail


async def test_agent_does_its_work(house: House) -> None:
    control = control_queue("USER@etl-1", [OWN])
    await carry_out(
        house,
        BrokerRole.AGENT,
        *(bind(binding.exchange, binding.key) for binding in control.bindings),
        read("warrener.queue.etl"),
        publish("warrener.status", "attempt.succeeded.flights.load"),
        publish("warrener.status", "agent.heartbeat.USER@etl-1"),
        publish("warrener.heartbeats", "agent.USER@etl-1"),
        publish("warrener.delay", "1s.etl.flights.load"),
        publish("warrener.logs", "attempt.logged.flights.load"),
        publish("warrener.requests", "reports.send"),
        publish("warrener.dead", "parked.warrener.queue.etl"),
        publish("warrener.control", "pulse.USER@etl-1"),
    )
    await empty(house, "warrener.requests")


async def test_asker_requests_its_types_and_receives_its_replies(house: House) -> None:
    replies = GUESTS[BrokerRole.ASKER].own_queue.replace("USER", guest(house, BrokerRole.ASKER).name)
    request = publish("warrener.requests", "billing.charge")
    receive = (bind("warrener.events", f"reply.USER-{HEX}"), read(replies))
    await carry_out(house, BrokerRole.ASKER, request, *receive)
    await empty(house, "warrener.requests")


async def test_observer_receives_public_events(house: House) -> None:
    queue = GUESTS[BrokerRole.OBSERVER].own_queue.replace("USER", guest(house, BrokerRole.OBSERVER).name)
    await carry_out(house, BrokerRole.OBSERVER, bind("warrener.events", "job.#"), read(queue))


async def test_operator_commands(house: House) -> None:
    await carry_out(
        house,
        BrokerRole.OPERATOR,
        publish("warrener.commands", "job.cancel_requested"),
        publish("warrener.commands", "parked.requeue_requested"),
        publish("warrener.requests", "billing.charge"),
    )
    await empty(house, "warrener.requests")


async def test_who_may_request_all_may_put_schedules(house: House) -> None:
    user = house.user(BrokerRole.OPERATOR, job_types=("*",))
    async with channel_on(user.url) as channel:
        await publish("warrener.commands", "schedule.put").call(channel, user.name, "")


async def test_services_see_what_waits_in_each_queue_that_they_declare(house: House) -> None:
    for role, queues in (
        (BrokerRole.SCHEDULER, [topology.REQUESTS_QUEUE]),
        (BrokerRole.SUPERVISOR, topology.TOPOLOGY.queues),
    ):
        bus = open_bus(guest(house, role).url, name="counts", declare="never")
        await bus.start()
        for queue in (*queues, topology.dispatch_queue(OWN), topology.dispatch_queue(FOREIGN)):
            assert (await bus.backlog(queue.name)).waiting >= 0
        await bus.close()


async def test_the_console_goes_on_without_the_queues_that_the_broker_hides(house: House) -> None:
    endpoints = ResolvedEndpoints(guest(house, BrokerRole.CONSOLE).url, "", "", from_up=False)
    inspector = SharedInspector(endpoints, answer_timeout=60)
    try:
        for _ in range(2):
            facts, delays = await inspector.query([OWN]), await inspector.count_delayed()
            assert (facts.trouble, facts.product is None) == (None, False)
            assert len(delays) in {0, len(topology.DELAY_LEVELS)}  # RabbitMQ 4.3 shows none
    finally:
        await inspector.close()


def test_admin_makes_everything(broker: RabbitMQServer, vhost_url: str) -> None:
    admin = BrokerUser(broker, vhost_url)
    admin.hold(Holder(BrokerRole.TOPOLOGY_ADMIN, "admin"))
    result = CliRunner().invoke(app, ["topology", "apply", "--queue", "etl", "--json", "--broker", admin.url])
    assert result.exit_code == 0, result.output
    assert "warrener.queue.etl" in json.loads(result.stdout)["declared"]
    again = CliRunner().invoke(app, ["topology", "apply", "--queue", "etl", "--broker", admin.url])
    assert again.exit_code == 0, again.output
    assert count_messages(vhost_url, "warrener.queue.etl") == [0]
    admin.remove()
