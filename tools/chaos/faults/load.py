"""Faults that come as messages: storms, poison, and more work than there is room for."""

import asyncio
import json
from typing import Any
from uuid import UUID

from tools.chaos import clients
from tools.chaos.faults.registry import Stage, kind
from tools.chaos.workload import build


@kind("backlog beyond start_timeout")
async def backlog(stage: Stage) -> str:
    """More jobs than the slots carry out within the `start_timeout` (2 s) of their type."""
    count = min(stage.system.slots * 3 * 20, stage.scale.storm * 10)
    await stage.workload.send(
        build(stage.dice, "chaos.backlog", {"seconds": 0.5}, plain=False) for _ in range(count)
    )
    await asyncio.sleep(4)
    return f"{count} jobs of 0.5 s"


@kind("no free slot")
async def no_free_slot(stage: Stage) -> str:
    """Long jobs take every slot of a queue."""
    seconds = stage.outage() + 3
    count = stage.system.slots * 3 + 10
    await stage.workload.send(
        build(stage.dice, "chaos.long", {"seconds": seconds}, plain=False) for _ in range(count)
    )
    await asyncio.sleep(seconds)
    return f"{count} jobs of {seconds} s"


@kind("event loop of an agent blocked")
async def loop_blocked(stage: Stage) -> str:
    """A handler blocks the event loop of its agent, past the lease."""
    seconds = min(stage.freeze(), 15)
    await stage.workload.send([build(stage.dice, "chaos.block", {"seconds": seconds}, plain=False)])
    await asyncio.sleep(seconds)
    return f"for {seconds} s"


@kind("agent of an older release")
async def older_agent(stage: Stage) -> str:
    """Beside the others, an agent serves a queue without knowing all of its job types, as in a deployment."""
    seconds = stage.outage() + 5
    did = await stage.system.run_older_agent(seconds)
    return f"for {seconds} s: {did}"


@kind("poison storm: child processes")
async def poison_children(stage: Stage) -> str:
    """Handlers that kill the process which executes them."""
    count = max(4, stage.scale.storm // 20)
    await stage.workload.send(
        build(stage.dice, "chaos.crash_child", {}, expected="dead", plain=False) for _ in range(count)
    )
    return f"{count} jobs"


@kind("poison storm: agents")
async def poison_agents(stage: Stage) -> str:
    """Handlers that kill their agent, and with it all that runs there."""
    await stage.workload.send(
        build(stage.dice, "chaos.crash_agent", {}, expected="dead", plain=False) for _ in range(2)
    )
    await asyncio.sleep(5)
    return "2 jobs"


@kind("cancel storm")
async def cancel_storm(stage: Stage) -> str:
    """Many jobs are cancelled while they wait, start or run."""
    await stage.workload.send(
        build(stage.dice, "chaos.long", {"seconds": 2}, expected="any", plain=False)
        for _ in range(stage.scale.storm)
    )
    return f"{stage.scale.storm} jobs"


@kind("bad-message storm")
async def bad_messages(stage: Stage) -> str:
    """Broken JSON, unknown versions, types, and arguments, on requests and on status."""
    count = stage.scale.storm // 4
    bad = [_bad(stage, number) for number in range(count)]
    await clients.publish(stage.system.rabbitmq, "warrener.requests", "chaos.short", bad)
    await clients.publish(stage.system.rabbitmq, "warrener.status", "attempt.succeeded.chaos.short", bad)
    return f"{2 * count} messages"


def _bad(stage: Stage, number: int) -> bytes:
    event: dict[str, Any] = {
        "specversion": "1.0",
        "source": "chaos.bad",
        "type": "job.requested.v1",
        "id": str(UUID(int=stage.dice.getrandbits(128), version=4)),
        "data": {"job_type": "chaos.short", "arguments": {}},
    }
    match number % 5:
        case 0:
            return b'{"specversion": "1.0", '
        case 1:
            return json.dumps(event | {"type": "job.requested.v99"}).encode()
        case 2:
            return json.dumps(event | {"data": {"job_type": "chaos.unknown", "arguments": {}}}).encode()
        case 3:
            return json.dumps(event | {"data": 7}).encode()
        case _:
            return b"[1, 2, 3]"
