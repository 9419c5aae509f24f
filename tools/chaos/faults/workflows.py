"""Faults at the moments that only workflows have."""

import asyncio

from tests.faults.postgres_proxy import How, When
from tools.chaos.effects import stamp
from tools.chaos.faults.registry import Stage, kind
from tools.chaos.system import ROLES, Member
from tools.chaos.workload import import_of, order

_LOOK = 0.05  # seconds
_WITHIN = 10.0  # seconds in which the moment has to come
_COUNT = 6
_JOINS = (
    r"SET wake_at = least\(job\.wake_at",  # the parents of children that have ended are woken
    r"INSERT INTO warrener_workflow_turns",  # the next turn begins with their ends
    r"\bFROM warrener_workflow_turns AS held\b",  # it is stored, and not dispatched
)


@kind("agent killed in a turn", weight=3)
async def agent_killed_in_turn(stage: Stage) -> str:
    """kill -9 of an agent that takes a turn of a workflow."""
    dice = stage.dice
    await stage.workload.send(order(dice, seconds=round(dice.uniform(0.2, 1.5), 1)) for _ in range(_COUNT))
    began = stamp()
    while stamp() - began < _WITHIN:
        for member in stage.system.of("agent"):
            if marks := _turns_of(stage, member):
                stage.system.kill(member)
                stage.system.launch(member)
                return f"{member.name} in {len(marks)} turns"
        await asyncio.sleep(_LOOK)
    return "none came"


def _turns_of(stage: Stage, member: Member) -> list[str]:
    if member.service is None or not member.alive:
        return []
    folder = stage.system.folder / "effects"
    return [path.name for path in folder.glob(f"turn-{member.service.process.pid}-*")]


@kind("supervisor killed at the join", weight=3)
async def supervisor_killed_at_join(stage: Stage) -> str:
    """kill -9 of the supervisor that makes the next turn of a workflow, at a statement of it."""
    await stage.workload.send(import_of(stage.dice) for _ in range(_COUNT))
    when, statement = stage.dice.choice(list(When)), stage.dice.choice(_JOINS)
    members = stage.system.of("supervisor")
    before = {member.name: len(member.database.struck) for member in members}
    for member in members:
        member.database.strike(statement, when, How.SILENT)
    began = stamp()
    try:
        while stamp() - began < _WITHIN:
            for member in members:
                if len(member.database.struck) > before[member.name]:
                    stage.system.kill(member)
                    stage.system.launch(member)
                    return f"{member.name}, {when} {statement}"
            await asyncio.sleep(_LOOK)
    finally:
        for member in members:
            member.database.heal()
    return f"none came, {statement}"


@kind("signals while everything restarts", weight=2)
async def signals_while_all_restarts(stage: Stage) -> str:
    """kill -9 of every service while orders are sent their signals, some of them twice."""
    count = stage.scale.storm // 4
    await stage.workload.send(order(stage.dice, signals=stage.dice.randint(1, 4)) for _ in range(count))
    await asyncio.sleep(stage.dice.choice((0.0, 0.5, 2.0)))
    roles = list(ROLES)
    stage.dice.shuffle(roles)
    for member in stage.system.members:
        stage.system.kill(member)
    for role in roles:
        await asyncio.sleep(stage.outage() / len(roles))
        for member in stage.system.of(role):
            stage.system.launch(member)
    await stage.system.until_ready(within=30)
    return f"{count} orders"
