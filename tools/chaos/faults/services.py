"""Faults of the services' processes and of their connections."""

import asyncio

from tests.faults.postgres_proxy import COMMIT, How, When
from tools.chaos.faults.registry import Fault, Stage, kind
from tools.chaos.system import ROLES, Role

_STRUCK_WITHIN = 10.0  # seconds
_STATEMENT = r"\b(INSERT INTO|UPDATE) warrener_"
_COMMITS: dict[Role, tuple[str, ...]] = {
    "scheduler": (_STATEMENT, COMMIT),
    "agent": (_STATEMENT, COMMIT, COMMIT),
    "supervisor": (_STATEMENT,),
}


def killed(role: Role) -> Fault:
    """kill -9 of one replica, which is started again at once."""

    async def bring_about(stage: Stage) -> str:
        member = stage.system.any_of(role, stage.dice)
        stage.system.kill(member)
        stage.system.launch(member)
        return member.name

    return bring_about


def all_killed(role: Role) -> Fault:
    """kill -9 of every replica at once; they come back after a while."""

    async def bring_about(stage: Stage) -> str:
        seconds = stage.outage()
        for member in stage.system.of(role):
            stage.system.kill(member)
        await asyncio.sleep(seconds)
        for member in stage.system.of(role):
            stage.system.launch(member)
        return f"for {seconds} s"

    return bring_about


def restarted(role: Role) -> Fault:
    """SIGTERM of one replica, which is started again when it has ended."""

    async def bring_about(stage: Stage) -> str:
        member = stage.system.any_of(role, stage.dice)
        code = await stage.system.terminate(member)
        stage.system.launch(member)
        return f"{member.name}, exit code {code}"

    return bring_about


def rolling_restart(role: Role) -> Fault:
    """SIGTERM of each replica in turn, the next when the one before is ready again."""

    async def bring_about(stage: Stage) -> str:
        for member in stage.system.of(role):
            await stage.system.terminate(member)
            stage.system.launch(member)
            await stage.system.until_ready(within=30)
        return f"{len(stage.system.of(role))} replicas"

    return bring_about


def frozen(role: Role) -> Fault:
    """SIGSTOP of one replica with its child processes, SIGCONT after a while."""

    async def bring_about(stage: Stage) -> str:
        member, seconds = stage.system.any_of(role, stage.dice), stage.freeze()
        await stage.system.freeze([member], seconds)
        return f"{member.name} for {seconds} s"

    return bring_about


def broker_connections_reset(role: Role) -> Fault:
    """RST to every connection between one replica and the broker."""

    async def bring_about(stage: Stage) -> str:
        member = stage.system.any_of(role, stage.dice)
        await member.broker.reset()
        return member.name

    return bring_about


def broker_silent(role: Role) -> Fault:
    """The connections of one replica to the broker stay open and carry nothing; new ones work."""

    async def bring_about(stage: Stage) -> str:
        member = stage.system.any_of(role, stage.dice)
        member.broker.blackhole()
        return member.name

    return bring_about


def commit_cut(role: Role) -> Fault:
    """One replica's connection is cut exactly at a commit: before it, or after it and before its answer. A
    statement that is sent without a transaction around it is its own commit."""

    async def bring_about(stage: Stage) -> str:
        member = stage.system.any_of(role, stage.dice)
        when, how = stage.dice.choice(list(When)), stage.dice.choice(list(How))
        struck = len(member.database.struck)
        member.database.strike(stage.dice.choice(_COMMITS[role]), when, how)
        within = min(_STRUCK_WITHIN, stage.scale.outage[1])
        found = await asyncio.to_thread(member.database.wait_struck, struck + 1, within=within)
        if not found:
            member.database.heal()
        return f"{member.name}, {when} a commit, {how}" + ("" if found else " (none came)")

    return bring_about


def database_silent(role: Role) -> Fault:
    """The connections of one replica to the database carry nothing for a while; new ones neither."""

    async def bring_about(stage: Stage) -> str:
        member, seconds = stage.system.any_of(role, stage.dice), stage.outage()
        member.database.blackhole()
        try:
            await asyncio.sleep(seconds)
        finally:
            member.database.heal()
        return f"{member.name} for {seconds} s"

    return bring_about


for _role in ROLES:
    kind(f"{_role} killed", weight=2)(killed(_role))
    kind(f"all of {_role} killed")(all_killed(_role))
    kind(f"{_role} restarted")(restarted(_role))
    kind(f"{_role} rolling restart", weight=0.5, in_short_form=False)(rolling_restart(_role))
    kind(f"{_role} frozen", weight=1.5)(frozen(_role))
    kind(f"{_role}: broker connections reset", in_short_form=_role == "agent")(
        broker_connections_reset(_role)
    )
    kind(f"{_role}: broker connections silent", weight=0.7, in_short_form=_role == "agent")(
        broker_silent(_role)
    )
    kind(f"{_role}: cut at a commit", weight=2)(commit_cut(_role))
    kind(f"{_role}: database silent", in_short_form=_role == "scheduler")(database_silent(_role))


@kind("network delay")
async def network_delay(stage: Stage) -> str:
    """Everything between one replica and the broker is late by 200 ms, each way."""
    member = stage.dice.choice(stage.system.members)
    seconds = stage.outage()
    member.broker.delay = 0.2
    try:
        await asyncio.sleep(seconds)
    finally:
        member.broker.delay = 0.0
    return f"{member.name}, 200 ms each way for {seconds} s"


@kind("broker out of reach of one replica")
async def broker_out_of_reach(stage: Stage) -> str:
    """One replica's connections to the broker are reset, and new ones refused, for a while."""
    member, seconds = stage.dice.choice(stage.system.members), stage.outage()
    await member.broker.stop()
    await asyncio.sleep(seconds)
    await member.broker.start()
    return f"{member.name} for {seconds} s"
