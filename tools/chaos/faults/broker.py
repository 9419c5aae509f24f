"""Faults of the broker and of its queues."""

import asyncio
from collections.abc import Sequence

from tools.chaos import clients
from tools.chaos.cluster import BrokerCluster
from tools.chaos.faults.registry import Stage, kind

_DISPATCH_QUEUES = {"alpha": "chaos.short", "beta": "chaos.book", "gamma": "chaos.exclusive"}
"""Queue, and a type of the jobs that wait in it."""
_DELAY_QUEUES = ("warrener.delay.1s", "warrener.delay.5s")
_FILLED, _LOOKS, _LOOK = 15, 40, 0.1
_POLICY = """
rabbit_policy:parse_set(<<"/">>, <<"chaos">>, <<"^warrener.queue.~s$">>, <<"{\\"max-length\\": 5}">>, <<"1">>,
    <<"queues">>, <<"warrener">>)
"""
_NO_POLICY = 'rabbit_policy:delete(<<"/">>, <<"chaos">>, <<"warrener">>)'
_ALARM = "{{resource_limit, memory, node()}, []}"


@kind("broker killed", weight=2)
async def broker_killed(stage: Stage) -> str:
    """kill -9 of the node, which is started again."""
    await asyncio.to_thread(stage.system.rabbitmq.settle)
    await asyncio.to_thread(stage.system.rabbitmq.kill)
    await asyncio.to_thread(stage.system.rabbitmq.start)
    return ""


@kind("broker restarted")
async def broker_restarted(stage: Stage) -> str:
    """The node ends in order and is started again."""
    await asyncio.to_thread(stage.system.rabbitmq.restart)
    return ""


@kind("broker frozen")
async def broker_frozen(stage: Stage) -> str:
    """SIGSTOP of the node for a while: connections stay open, and nothing answers. On a starved machine the
    others of a cluster may give it up, as when it is frozen for long."""
    seconds, broker = stage.outage(), stage.system.rabbitmq
    broker.pause()
    try:
        await asyncio.sleep(seconds)
    finally:
        broker.resume()
    restarted = isinstance(broker, BrokerCluster) and await asyncio.to_thread(broker.restart_parted)
    return f"for {seconds} s{', restarted' if restarted else ''}"


@kind("broker memory alarm")
async def memory_alarm(stage: Stage) -> str:
    """The node blocks every publisher, as when it is short of memory."""
    seconds = stage.outage()
    await _evaluate(stage, f"rabbit_alarm:set_alarm({_ALARM})")
    try:
        await asyncio.sleep(seconds)
    finally:
        await _evaluate(stage, "rabbit_alarm:clear_alarm({resource_limit, memory, node()})")
    return f"for {seconds} s"


@kind("broker closes all connections")
async def closed_by_the_broker(stage: Stage) -> str:
    """What an operator's `close_all_connections` does."""
    await asyncio.to_thread(stage.system.rabbitmq.close_connections)
    return ""


@kind("dispatch queue purged")
async def dispatch_queue_purged(stage: Stage) -> str:
    """An operator purges a queue in which attempts wait."""
    name = await _filled_dispatch_queue(stage)
    async with clients.channel(stage.system.rabbitmq) as channel:
        purged = await channel.queue_purge(name)
    return f"{name}, {purged.message_count} messages"


@kind("dispatch queue deleted")
async def dispatch_queue_deleted(stage: Stage) -> str:
    """An operator deletes a queue in which attempts wait."""
    name = await _filled_dispatch_queue(stage)
    async with clients.channel(stage.system.rabbitmq) as channel:
        deleted = await channel.queue_delete(name)
    return f"{name}, {deleted.message_count} messages"


@kind("delay queue purged")
async def delay_queue_purged(stage: Stage) -> str:
    """An operator purges a queue in which retries wait."""
    name = await _filled_delay_queue(stage)
    async with clients.channel(stage.system.rabbitmq) as channel:
        purged = await channel.queue_purge(name)
    return f"{name}, {purged.message_count} messages"


@kind("delay queue deleted")
async def delay_queue_deleted(stage: Stage) -> str:
    """An operator deletes a queue in which retries wait."""
    name = await _filled_delay_queue(stage)
    async with clients.channel(stage.system.rabbitmq) as channel:
        deleted = await channel.queue_delete(name)
    return f"{name}, {deleted.message_count} messages"


@kind("dispatch queue full")
async def dispatch_queue_full(stage: Stage) -> str:
    """A policy lets one dispatch queue hold five messages, and refuses all others, for a while."""
    queue, seconds = stage.dice.choice(list(_DISPATCH_QUEUES)), stage.outage()
    await _evaluate(stage, _POLICY.replace("~s", queue))
    try:
        await stage.burst(_DISPATCH_QUEUES[queue], (0.2, 0.5), _more_than_slots(stage))
        await asyncio.sleep(seconds)
    finally:
        await _evaluate(stage, _NO_POLICY)
    return f"warrener.queue.{queue} for {seconds} s"


@kind("messages replayed")
async def messages_replayed(stage: Stage) -> str:
    """Requests, dispatches and status events of before are published a second time."""
    count = await clients.replay(stage.system.rabbitmq, stage.scale.storm * 3)
    return f"{count} messages"


async def _filled_dispatch_queue(stage: Stage) -> str:
    """The name of a queue in which dispatches wait, because all slots are taken."""
    queue = stage.dice.choice(list(_DISPATCH_QUEUES))
    await stage.burst(_DISPATCH_QUEUES[queue], (1.0, 2.0), _more_than_slots(stage))
    return await _not_empty(stage, [f"warrener.queue.{queue}"])


async def _filled_delay_queue(stage: Stage) -> str:
    """The name of a delay queue in which retries wait."""
    await stage.burst("chaos.short", (0.0, 0.1), stage.scale.storm, fails=2)
    return await _not_empty(stage, _DELAY_QUEUES)


async def _not_empty(stage: Stage, names: Sequence[str]) -> str:
    """The first of these queues that holds messages; the first of all if none does in time."""
    for _ in range(_LOOKS):
        lengths = await asyncio.to_thread(clients.queue_lengths, stage.system.rabbitmq, "messages_ready")
        if found := next((name for name in names if lengths.get(name, 0) > _FILLED), None):
            return found
        await asyncio.sleep(_LOOK)
    return names[0]


def _more_than_slots(stage: Stage) -> int:
    return stage.system.slots * 3 * 4


async def _evaluate(stage: Stage, expressions: str) -> str:
    return await asyncio.to_thread(stage.system.rabbitmq.evaluate, expressions)
