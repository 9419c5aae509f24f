"""Faults of the topology, generated: each exchange, queue, binding and permission is taken away, and put back
or left to the product.

A piece that is not put back must come back by the product's own means in time (`Scale.mended_within`); the
harness puts it back then, and the checker finds it. What a purge destroys must come back too, but for
confirmed requests: only their requester still has them, so the harness repeats its own, as requesters do.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from tools.chaos import clients, pieces
from tools.chaos.effects import stamp
from tools.chaos.faults.registry import Fault, Stage, kind
from tools.chaos.history import Unmended
from tools.chaos.system import ROLES, Role
from tools.reference.channels import channels

from warrener_contracts import topology as wire
from warrener_contracts.topology import Binding, Queue

_LOOK = 0.25  # seconds
_FILLED = 0.7  # seconds in which messages gather in a queue without its readers
_DISPATCH = wire.dispatch_queue("alpha")
_DELAYS = (wire.DELAY_QUEUES[0], wire.DELAY_QUEUES[1], wire.DELAY_QUEUES[-1])
_SHARED = (*(queue for queue in wire.TOPOLOGY.queues if queue not in wire.DELAY_QUEUES), *_DELAYS, _DISPATCH)
_OWN = ("warrener.heartbeats.", "warrener.control.", "warrener.reply.")
"""First words of exclusive queues: of a supervisor, an agent, a client."""
_OWN_BINDINGS = (
    ("warrener.heartbeats.", wire.HEARTBEATS, "#"),
    ("warrener.control.", wire.CONTROL, "all"),
    ("warrener.control.", wire.CONTROL, "queue.alpha"),
    ("warrener.control.", wire.CONTROL, "agent."),
    ("warrener.control.", wire.CONTROL, "pulse."),
    ("warrener.reply.", wire.EVENTS, "reply."),
)
_READERS: dict[str, Role] = {
    wire.REQUESTS_QUEUE.name: "scheduler",
    wire.SCHEDULER_COMMANDS.name: "scheduler",
    wire.STATUS_QUEUE.name: "supervisor",
    wire.SUPERVISOR_COMMANDS.name: "supervisor",
    wire.LOGS_QUEUE.name: "supervisor",
    wire.DEAD_QUEUE.name: "supervisor",
    wire.UNROUTABLE_QUEUE.name: "supervisor",
    _DISPATCH.name: "agent",
}
SAMPLE = frozenset(
    {
        "exchange warrener.logs deleted",
        "exchange warrener.events deleted and declared again",
        "queue warrener.status deleted",
        "queue warrener.control.* deleted",
        "queue warrener.requests purged",
        "queue warrener.status full",
        "binding warrener.return *.alpha.# unbound",
        "binding warrener.requests # unbound for a while",
        "agent may not write warrener.status",
        "nobody may write warrener.events",
        "scheduler may not read warrener.requests",
        "agent may not configure",
    }
)
"""One of each shape: the sample of the short form."""


def exchange_deleted(name: str, *, again: bool) -> Fault:
    """An operator deletes an exchange; `again`: and declares it, but none of its bindings."""

    async def bring_about(stage: Stage) -> str:
        async def take() -> None:
            await pieces.delete_exchange(stage.system.rabbitmq, name)
            if again:
                await pieces.declare_exchange(stage.system.rabbitmq, name)

        return await _until_mended(stage, take)

    return bring_about


def queue_deleted(queue: Queue | str, *, again: bool = False) -> Fault:
    """An operator deletes a queue with what waits in it; `again`: and declares it as it was."""

    async def bring_about(stage: Stage) -> str:
        broker = stage.system.rabbitmq
        name = await pieces.queue_named(broker, queue if isinstance(queue, str) else queue.name)

        async def take() -> None:
            async with _readers_away(stage, name):
                await pieces.delete_queue(broker, name)
            if again and isinstance(queue, Queue):
                await pieces.declare_queue(broker, queue)

        async with _requests_repeated(stage, name):
            return await _until_mended(stage, take)

    return bring_about


def queue_purged(queue: str) -> Fault:
    """An operator purges a queue."""

    async def bring_about(stage: Stage) -> str:
        name = await pieces.queue_named(stage.system.rabbitmq, queue)
        async with _requests_repeated(stage, name), _readers_away(stage, name):
            count = await pieces.purge(stage.system.rabbitmq, name)
        return f"{count} messages"

    return bring_about


def queue_full(queue: str) -> Fault:
    """A policy lets a queue hold one message for a while; others are refused."""

    async def bring_about(stage: Stage) -> str:
        seconds = stage.outage()
        await pieces.limit(stage.system.rabbitmq, queue)
        try:
            await asyncio.sleep(seconds)
        finally:
            await pieces.unlimit(stage.system.rabbitmq)
        return f"for {seconds} s"

    return bring_about


def unbound(queue: str, exchange: str, key: str, *, again: bool) -> Fault:
    """An operator removes a binding; `again`: and adds it after a while."""

    async def bring_about(stage: Stage) -> str:
        broker = stage.system.rabbitmq
        name = await pieces.queue_named(broker, queue)
        own = await pieces.key_named(broker, exchange, key, name) if key.endswith(".") else key

        async def take() -> None:
            await pieces.unbind(broker, exchange, own, name)
            if again:
                await asyncio.sleep(stage.outage())
                await pieces.bind(broker, exchange, own, name)

        return await _until_mended(stage, take)

    return bring_about


def forbidden(users: Sequence[str], *, configure: str = ".*", write: str = ".*", read: str = ".*") -> Fault:
    """An operator takes a permission from users for a while, whose connections end: a channel that is at work
    keeps the permissions that it has looked up."""

    async def bring_about(stage: Stage) -> str:
        system, seconds = stage.system, stage.outage()
        await pieces.permit(system.rabbitmq, users, configure, write, read)
        try:
            for member in system.members:
                if member.role in users:
                    await member.broker.reset()
            await asyncio.sleep(seconds)
        finally:
            await pieces.permit(system.rabbitmq, users)
        return f"for {seconds} s"

    return bring_about


async def _until_mended(stage: Stage, take: Callable[[], Awaitable[None]]) -> str:
    """Take a piece away; wait until all that was there is there again."""
    broker = stage.system.rabbitmq
    await clients.remove_tap(broker)  # it would take messages that nobody else is bound for
    before = await pieces.pieces(broker)
    began = stamp()
    try:
        await take()
        # Not all that is missing: a service that restarts takes pieces of its own with it.
        taken = before - await pieces.pieces(broker)
        while missing := taken & (before - await pieces.pieces(broker)):
            if stamp() - began > stage.scale.mended_within:
                named = [" ".join(piece) for piece in sorted(missing)]
                stage.system.record_unmended(Unmended(", ".join(named), stamp()))
                await _put_back(stage)
                return f"not mended in {stage.scale.mended_within:.0f} s: {', '.join(named)}"
            await asyncio.sleep(_LOOK)
    finally:
        await clients.add_tap(broker)
    return f"mended after {stamp() - began:.1f} s"


async def _put_back(stage: Stage) -> None:
    """Declare everything shared again, and have the services declare their own by new connections."""
    broker = stage.system.rabbitmq
    for exchange in wire.EXCHANGES:
        await pieces.declare_exchange(broker, exchange.name)
    for queue in (*wire.TOPOLOGY.queues, *map(wire.dispatch_queue, stage.system.queues)):
        await pieces.declare_queue(broker, queue)
    await asyncio.to_thread(broker.close_connections)


@asynccontextmanager
async def _readers_away(stage: Stage, queue: str) -> AsyncGenerator[None]:
    """Kill the readers of a queue for a moment, so that messages wait in it that nobody holds."""
    if (role := _READERS.get(queue)) is None:
        yield
        return
    for member in stage.system.of(role):
        stage.system.kill(member)
    try:
        await stage.burst("chaos.short", (0.0, 0.1), stage.scale.storm)
        await asyncio.sleep(_FILLED)
        yield
    finally:
        for member in stage.system.of(role):
            stage.system.launch(member)


@asynccontextmanager
async def _requests_repeated(stage: Stage, queue: str) -> AsyncGenerator[None]:
    """Repeat the confirmed requests and signals that are destroyed within: nobody but their requester has
    them. Workflows do not request their children again, so they are cancelled."""
    begun = stamp()
    yield
    if queue == wire.SUPERVISOR_COMMANDS.name:
        stage.workload.repeat_signals()
    if queue == wire.REQUESTS_QUEUE.name:
        stage.system.record_destroyed(begun, stamp())
        await stage.workload.repeat_unknown(stage.system.store_url)
        await stage.workload.end_workflows(stage.system.store_url)


def _senders(exchange: str) -> list[Role]:
    """The roles that publish to an exchange, by the routes of the events."""
    senders = {sender for one in channels() if one.route.exchange == exchange for sender in one.route.senders}
    if exchange in (wire.DEAD, wire.UNROUTABLE):
        return list(ROLES) if exchange == wire.DEAD else []  # all of them park
    return [role for role in ROLES if role in {str(sender) for sender in senders}]


def _kind(name: str, fault: Fault) -> None:
    kind(name, weight=0.2, in_short_form=name in SAMPLE)(fault)


def _generate() -> None:
    for exchange in wire.EXCHANGES:
        _kind(f"exchange {exchange.name} deleted", exchange_deleted(exchange.name, again=False))
        _kind(
            f"exchange {exchange.name} deleted and declared again",
            exchange_deleted(exchange.name, again=True),
        )
    for queue in _SHARED:
        _kind(f"queue {queue.name} deleted", queue_deleted(queue))
        _kind(f"queue {queue.name} deleted and declared again", queue_deleted(queue, again=True))
        _kind(f"queue {queue.name} purged", queue_purged(queue.name))
        _kind(f"queue {queue.name} full", queue_full(queue.name))
        _unbound(queue.name, queue.bindings)
    for start in _OWN:
        _kind(f"queue {start}* deleted", queue_deleted(start))
        _kind(f"queue {start}* purged", queue_purged(start))
    for start, exchange_name, key in _OWN_BINDINGS:
        _unbound(start, [Binding(exchange_name, key)])
    for exchange in wire.EXCHANGES:
        senders = _senders(exchange.name)
        for role in senders:
            _kind(
                f"{role} may not write {exchange.name}",
                forbidden([role], write=pieces.all_but(exchange.name)),
            )
        if senders:
            _kind(
                f"nobody may write {exchange.name}",
                forbidden(pieces.USERS, write=pieces.all_but(exchange.name)),
            )
    for name, role in _READERS.items():
        _kind(f"{role} may not read {name}", forbidden([role], read=pieces.all_but(name)))
    for role in ROLES:
        _kind(f"{role} may not configure", forbidden([role], configure="^$"))
    _kind("nobody may configure", forbidden(pieces.USERS, configure="^$"))


def _unbound(queue: str, bindings: Iterable[Binding]) -> None:
    for one in bindings:
        name = f"binding {one.exchange} {one.key}{'*' if one.key.endswith('.') else ''}"
        if queue in _OWN and not one.key.endswith("."):
            name += f" of {queue}*"
        _kind(f"{name} unbound", unbound(queue, one.exchange, one.key, again=False))
        _kind(f"{name} unbound for a while", unbound(queue, one.exchange, one.key, again=True))


_generate()
