"""Faults of clocks: libfaketime shifts what one replica believes to be the time of day."""

import asyncio

from tools.chaos.faults.registry import Stage, kind


@kind("clock stepped", weight=2, needs_faketime=True)
async def clock_stepped(stage: Stage) -> str:
    """One replica's clock jumps by up to a minute while it works, and back after a while."""
    member, seconds = stage.system.with_clock(stage.dice), stage.outage()
    offset = stage.dice.choice((-60.0, -10.0, -2.0, 2.0, 10.0, 60.0))
    member.set_clock(offset)
    await asyncio.sleep(seconds)
    member.set_clock(0)
    return f"{member.name}, {offset:+.0f} s for {seconds} s"


@kind("clock off from the start", weight=2, needs_faketime=True)
async def clock_off(stage: Stage) -> str:
    """One replica is started with a clock that is a minute off, and with a right one after a while."""
    member, seconds = stage.system.with_clock(stage.dice), stage.outage() + 5
    offset = stage.dice.choice((-60.0, -8.0, 8.0, 60.0))
    await stage.system.terminate(member)
    member.set_clock(offset)
    stage.system.launch(member)
    await asyncio.sleep(seconds)
    await stage.system.terminate(member)
    member.set_clock(0)
    stage.system.launch(member)
    return f"{member.name}, {offset:+.0f} s for {seconds} s"
