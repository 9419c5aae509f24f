"""Faults of the broker and of its queues."""

import asyncio

from tests.chaos import clients
from tests.chaos.faults.registry import Stage, kind

_DISPATCH_QUEUES = ("alpha", "beta", "gamma")
_DELAY_QUEUES = ("warrener.delay.1s", "warrener.delay.5s")
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
    """SIGSTOP of the node for a while: connections stay open, and nothing answers."""
    seconds = stage.outage()
    stage.system.rabbitmq.pause()
    try:
        await asyncio.sleep(seconds)
    finally:
        stage.system.rabbitmq.resume()
    return f"for {seconds} s"


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
    name = f"warrener.queue.{stage.dice.choice(_DISPATCH_QUEUES)}"
    async with clients.channel(stage.system.rabbitmq) as channel:
        purged = await channel.queue_purge(name)
    return f"{name}, {purged.message_count} messages"


@kind("dispatch queue deleted")
async def dispatch_queue_deleted(stage: Stage) -> str:
    """An operator deletes a queue in which attempts wait."""
    name = f"warrener.queue.{stage.dice.choice(_DISPATCH_QUEUES)}"
    async with clients.channel(stage.system.rabbitmq) as channel:
        deleted = await channel.queue_delete(name)
    return f"{name}, {deleted.message_count} messages"


@kind("delay queue purged")
async def delay_queue_purged(stage: Stage) -> str:
    """An operator purges a queue in which retries wait."""
    name = stage.dice.choice(_DELAY_QUEUES)
    async with clients.channel(stage.system.rabbitmq) as channel:
        purged = await channel.queue_purge(name)
    return f"{name}, {purged.message_count} messages"


@kind("delay queue deleted")
async def delay_queue_deleted(stage: Stage) -> str:
    """An operator deletes a queue in which retries wait."""
    name = stage.dice.choice(_DELAY_QUEUES)
    async with clients.channel(stage.system.rabbitmq) as channel:
        deleted = await channel.queue_delete(name)
    return f"{name}, {deleted.message_count} messages"


@kind("dispatch queue full")
async def dispatch_queue_full(stage: Stage) -> str:
    """A policy lets one dispatch queue hold five messages, and refuses all others, for a while."""
    queue, seconds = stage.dice.choice(_DISPATCH_QUEUES), stage.outage()
    await _evaluate(stage, _POLICY.replace("~s", queue))
    try:
        await asyncio.sleep(seconds)
    finally:
        await _evaluate(stage, _NO_POLICY)
    return f"warrener.queue.{queue} for {seconds} s"


@kind("messages replayed")
async def messages_replayed(stage: Stage) -> str:
    """Requests, dispatches and status events of before are published a second time."""
    count = await clients.replay(stage.system.rabbitmq, stage.scale.storm * 3)
    return f"{count} messages"


async def _evaluate(stage: Stage, expressions: str) -> str:
    return await asyncio.to_thread(stage.system.rabbitmq.evaluate, expressions)
