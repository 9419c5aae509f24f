"""The attacks that the broker refuses to a role: by the name of a queue or an exchange, or by a routing key.

`test_broker_attacks.py` carries each of them out, and `docs/explanation/security.md` lists them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiormq.abc import AbstractChannel
from pamqp.commands import Basic

from warrener_contracts.permissions import BrokerRole

HEX = "0123456789abcdef" * 2
NAMES, KEYS = "permissions of the broker", "topic permissions of the broker"


class Guest(NamedTuple):
    """What a role is given here, and a queue that it may declare. `USER` stands for the user's name."""

    options: Mapping[str, tuple[str, ...]]
    own_queue: str


@dataclass(frozen=True)
class Attempt:
    """A call on a channel, given the user and its own queue. `makes_piece`: of something that is missing."""

    call: Callable[[AbstractChannel, str, str], Awaitable[Any]]
    makes_piece: bool = False


class BrokerAttack(NamedTuple):
    """An attempt of a role that its permissions refuse."""

    who: BrokerRole
    does: str
    attempt: Attempt
    refused: str


def bind(exchange: str, key: str, queue: str | None = None) -> Attempt:
    """Bind a queue that exists, or else the user's own."""

    async def call(channel: AbstractChannel, user: str, own_queue: str) -> None:
        if queue is None:
            await channel.queue_declare(own_queue, exclusive=True)
        await channel.queue_bind(queue or own_queue, exchange, key.replace("USER", user))

    return Attempt(call)


def publish(exchange: str, key: str) -> Attempt:
    """Publish a message."""
    return Attempt(
        lambda channel, user, _queue: channel.basic_publish(
            b"{}", exchange=exchange, routing_key=key.replace("USER", user), properties=Basic.Properties()
        )
    )


def read(queue: str) -> Attempt:
    """Take a message out of a queue."""
    return Attempt(lambda channel, _user, _queue: channel.basic_get(queue))


def purge(queue: str) -> Attempt:
    """Throw the messages of a queue away."""
    return Attempt(lambda channel, _user, _queue: channel.queue_purge(queue))


def delete(queue: str) -> Attempt:
    """Delete a queue with its messages."""
    return Attempt(lambda channel, _user, _queue: channel.queue_delete(queue))


def declare_queue(queue: str) -> Attempt:
    """Declare a queue that lasts."""
    return Attempt(
        lambda channel, _user, _queue: channel.queue_declare(queue, durable=True), makes_piece=True
    )


def declare_exchange(exchange: str) -> Attempt:
    """Declare an exchange that lasts."""
    return Attempt(
        lambda channel, _user, _queue: channel.exchange_declare(exchange, durable=True), makes_piece=True
    )


def lead(source: str, key: str, destination: str) -> Attempt:
    """Bind an exchange to another one."""
    return Attempt(lambda channel, _user, _queue: channel.exchange_bind(destination, source, key))


def unbind(queue: str, exchange: str, key: str) -> Attempt:
    """Cut a queue off from its exchange."""
    return Attempt(lambda channel, _user, _queue: channel.queue_unbind(queue, exchange, key))


_REPLIES = f"warrener.reply.USER-{HEX}"
GUESTS: Mapping[BrokerRole, Guest] = {
    BrokerRole.AGENT: Guest(
        {"queues": ("etl",), "job_types": ("flights.*",), "child_types": ("reports.*",)},
        "warrener.control.USER@etl-1",
    ),
    BrokerRole.ASKER: Guest({"job_types": ("billing.*",)}, _REPLIES),
    BrokerRole.OBSERVER: Guest({}, "warrener.observer.USER.all"),
    BrokerRole.OPERATOR: Guest({"job_types": ("billing.*",)}, _REPLIES),
    BrokerRole.CONSOLE: Guest({}, "warrener.console.01234567-89ab-cdef-0123-456789abcdef"),
    BrokerRole.SCHEDULER: Guest({}, f"warrener.ping.{HEX}"),
    BrokerRole.SUPERVISOR: Guest({}, "warrener.heartbeats.s-1"),
    BrokerRole.TOPOLOGY_ADMIN: Guest({}, f"warrener.ping.{HEX}"),
}

_ATTACKS: Mapping[tuple[BrokerRole, str], Mapping[str, Attempt]] = {
    (BrokerRole.AGENT, NAMES): {
        "take dispatches of another queue": read("warrener.queue.payroll"),
        "purge another work queue": purge("warrener.queue.payroll"),
        "declare the control queue of another user's agent": declare_queue("warrener.control.bob@etl-1"),
        "delete its work queue, with the jobs of its peers": delete("warrener.queue.etl"),
        "declare another work queue": declare_queue("warrener.queue.mine"),
        "read the reports of other agents": read("warrener.status"),
        "unbind the queue of reports": unbind("warrener.status", "warrener.status", "#"),
        "unbind its work queue": unbind("warrener.queue.etl", "warrener.dispatch", "etl.#"),
        "cancel a job by a command": publish("warrener.commands", "job.cancel_requested"),
        "receive the replies of requesters": bind("warrener.events", "reply.#"),
        "receive copies of all dispatches": bind("warrener.dispatch", "#"),
        "receive copies of all requests": bind("warrener.requests", "#"),
        "dispatch an attempt to another queue": publish("warrener.dispatch", "payroll.payments.refund"),
        "publish what comes out of the delay queues": publish("warrener.return", "1s.payroll.flights.load"),
        "answer the requester of a job": publish("warrener.events", f"reply.bob-{HEX}"),
        "publish that a job has ended": publish("warrener.events", "job.finished.succeeded.flights.load"),
        "lead an exchange without keys into the delay queues": lead(
            "amq.direct", "1s.payroll.payments.refund", "warrener.delay"
        ),
        "publish to a work queue by the default exchange": publish("", "warrener.queue.payroll"),
    },
    (BrokerRole.AGENT, KEYS): {
        "report the success of a job type that it does not run": publish(
            "warrener.status", "attempt.succeeded.payments.refund"
        ),
        "report an attempt as lost, as the supervisor does": publish(
            "warrener.status", "attempt.lost.flights.load"
        ),
        "write log lines of a job type that it does not run": publish(
            "warrener.logs", "attempt.logged.payments.refund"
        ),
        "cancel the attempts of all agents": publish("warrener.control", "all"),
        "command another agent": publish("warrener.control", "agent.payroll-1"),
        "receive the control messages of all agents": bind("warrener.control", "#"),
        "receive what single agents are sent": bind("warrener.control", "agent.#"),
        "receive what another user's agent is sent": bind("warrener.control", "agent.bob@etl-1"),
        "beat under the id of another user's agent": publish("warrener.heartbeats", "agent.bob@etl-1"),
        "beat under an id of its own user and more": publish("warrener.heartbeats", "agent.USER-2@etl-1"),
        "prove by a pulse that another user's agent receives": publish("warrener.control", "pulse.bob@etl-1"),
        "receive what agents of another queue are sent": bind("warrener.control", "queue.payroll"),
        "request a job type that its handlers may not request": publish(
            "warrener.requests", "payments.refund"
        ),
        "send an attempt to another queue through the delay queues": publish(
            "warrener.delay", "1s.payroll.flights.load"
        ),
        "put a forged dead letter among those of the broker": publish("warrener.dead", "dead.queue.payroll"),
        "lead its pings to the control queues of all agents": lead("amq.topic", "all", "warrener.control"),
    },
    (BrokerRole.ASKER, KEYS): {
        "bind a queue to `reply.#`": bind("warrener.events", "reply.#"),
        "bind a queue to `#` of the events": bind("warrener.events", "#"),
        "bind a queue to the reply address of another user": bind("warrener.events", f"reply.bob-{HEX}"),
        "bind a queue to a key that begins with its reply address": bind(
            "warrener.events", f"reply.USER-{HEX}.#"
        ),
        "observe the jobs of others": bind("warrener.events", "job.finished.#"),
        "request a job type that is not its own": publish("warrener.requests", "payments.refund"),
        "end a routing key with a line feed": publish("warrener.requests", "billing.charge\n"),
        "publish without a routing key": publish("warrener.requests", ""),
        "announce job types as an agent does": publish("warrener.requests", "agent.announced.etl"),
        "lead its pings into requests under the key of another type": lead(
            "amq.topic", "payments.refund", "warrener.requests"
        ),
    },
    (BrokerRole.ASKER, NAMES): {
        "bind a queue to the dispatches": bind("warrener.dispatch", "#"),
        "bind a queue to the log lines of handlers": bind("warrener.logs", "#"),
        "declare the reply queue of another user": declare_queue(f"warrener.reply.bob-{HEX}"),
        "take requests of others with `basic.get`": read("warrener.requests"),
        "take dispatches from a work queue": read("warrener.queue.etl"),
        "read dead letters": read("warrener.dead"),
        "purge the queue of requests": purge("warrener.requests"),
        "delete `warrener.unroutable`": delete("warrener.unroutable"),
        "delete a work queue": delete("warrener.queue.etl"),
        "declare a durable queue of any name": declare_queue("mine"),
        "declare an exchange": declare_exchange("warrener.mine"),
        "unbind the queue of requests from its exchange": unbind(
            "warrener.requests", "warrener.requests", "#"
        ),
        "cancel jobs": publish("warrener.commands", "job.cancel_requested"),
        "put a schedule": publish("warrener.commands", "schedule.put"),
        "report the success of an attempt": publish("warrener.status", "attempt.succeeded.billing.charge"),
        "send the heartbeat of an agent": publish("warrener.heartbeats", "agent.loader-1"),
        "answer a request of another user": publish("warrener.events", f"reply.bob-{HEX}"),
        "dispatch an attempt to an agent": publish("warrener.dispatch", "etl.billing.charge"),
        "publish to a queue by the default exchange": publish("", "warrener.queue.etl"),
        "lead an exchange without keys into that of requests": lead(
            "amq.direct", "payments.refund", "warrener.requests"
        ),
    },
    (BrokerRole.OBSERVER, KEYS): {
        "bind a queue to `reply.#`": bind("warrener.events", "reply.#"),
        "bind a queue to `#`": bind("warrener.events", "#"),
        "bind a queue to `*.#`": bind("warrener.events", "*.#"),
    },
    (BrokerRole.OBSERVER, NAMES): {
        "bind a queue to the heartbeats": bind("warrener.heartbeats", "#"),
        "declare a queue of another observer": declare_queue("warrener.observer.bob.all"),
        "request a job": publish("warrener.requests", "billing.charge"),
        "publish that a job has ended": publish("warrener.events", "job.finished.succeeded.billing.charge"),
        "read requests": read("warrener.requests"),
    },
    (BrokerRole.OPERATOR, KEYS): {
        "request a job type that is not its own": publish("warrener.requests", "payments.refund"),
        "request any job type by a schedule": publish("warrener.commands", "schedule.put"),
        "bind a queue to `reply.#`": bind("warrener.events", "reply.#"),
    },
    (BrokerRole.OPERATOR, NAMES): {
        "report the success of an attempt": publish("warrener.status", "attempt.succeeded.billing.charge"),
        "cancel by the queue of reports": publish("warrener.status", "job.cancel_requested"),
        "command the agents": publish("warrener.control", "all"),
        "read the commands of others": read("warrener.commands.supervisor"),
        "purge the dead letters": purge("warrener.dead"),
        "delete a work queue": delete("warrener.queue.etl"),
    },
    (BrokerRole.CONSOLE, KEYS): {"bind a queue to `reply.#`": bind("warrener.events", "reply.#")},
    (BrokerRole.CONSOLE, NAMES): {
        "request a job": publish("warrener.requests", "billing.charge"),
        "take dispatches": read("warrener.queue.etl"),
        "publish that a job has ended": publish("warrener.events", "job.finished.succeeded.billing.charge"),
    },
    (BrokerRole.SCHEDULER, NAMES): {
        "read the reports of agents": read("warrener.status"),
        "command the agents": publish("warrener.control", "all"),
        "delete the queue of requests": delete("warrener.requests"),
        "publish to a queue by the default exchange": publish("", "warrener.status"),
    },
    (BrokerRole.SCHEDULER, KEYS): {
        "report the success of an attempt": publish("warrener.status", "attempt.succeeded.billing.charge"),
        "trigger schedules by the replies of others": bind("warrener.events", "reply.#", "warrener.triggers"),
        "trigger schedules by all events at once": bind("warrener.events", "#", "warrener.triggers"),
    },
    (BrokerRole.SUPERVISOR, NAMES): {
        "read requests": read("warrener.requests"),
        "take dispatches": read("warrener.queue.etl"),
        "delete the queue of dead letters": delete("warrener.dead"),
        "receive the replies of others": bind("warrener.events", "reply.#"),
    },
    (BrokerRole.TOPOLOGY_ADMIN, KEYS): {
        "request a job": publish("warrener.requests", "billing.charge"),
        "dispatch an attempt": publish("warrener.dispatch", "etl.billing.charge"),
        "command the services": publish("warrener.commands", "job.cancel_requested"),
        "receive the replies of others": bind("warrener.events", "reply.#", "warrener.triggers"),
    },
    (BrokerRole.TOPOLOGY_ADMIN, NAMES): {"declare a queue outside the topology": declare_queue("mine")},
}


def broker_attacks() -> Iterator[BrokerAttack]:
    """All attacks of this table, in its order."""
    for (who, refused), attempts in _ATTACKS.items():
        for does, attempt in attempts.items():
            yield BrokerAttack(who, does, attempt, refused)
