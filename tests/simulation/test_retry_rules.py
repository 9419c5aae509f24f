"""A retry rule sends a job to another queue with its history, whichever process dies at whatever call."""

import os
from functools import partial
from typing import Literal

import pytest
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.handlers import shop
from tests.simulation.invariants import check
from tests.simulation.workload import request
from tests.simulation.world import World

from warrener_agent import Agent, Backoff, JobContext, RetryRule
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rules import chosen_by_rule

_ENOUGH = 200  # calls; each story makes fewer, and ends the count itself
_STRIDE = int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))  # `make test-crashes` strikes at every call
agent = Agent()


@agent.job(
    "large",
    max_attempts=10,
    start_timeout="60s",
    backoff=Backoff.fixed(1, jitter=0),
    retry_rules=[
        RetryRule(errors=["memory"], after=2, queue="other"),
        RetryRule(errors=["memory"], timeout_factor=2, another_agent=True),
    ],
)
async def large(job: JobContext) -> list[str]:
    await shop().work(job, 0.1, 0)
    if job.history.count("memory") < 2:
        raise MemoryError
    return [one.queue for one in job.history.attempts if one.error == "MemoryError"]


@agent.job("beside", queue="other")
async def beside() -> None: ...


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("kind", "how"), [("supervisor", "dies"), ("supervisor", "is failed"), ("agent", "dies")]
)
async def test_a_process_is_struck_at_every_call_while_a_rule_moves_a_job(
    kind: str, how: Literal["dies", "is failed"], *, effect_first: bool
) -> None:
    story = partial(_story, kind, how, effect_first=effect_first)
    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=_ENOUGH)


async def _story(kind: str, how: str, nth: int, *, effect_first: bool) -> bool:
    world = World(nth, schedulers=1, supervisors=1, agents=2, rests=(1.0,))
    world.handlers = agent
    async with world:
        life = world.process(kind).life
        life.strike_at(nth, effect_first=effect_first, deadly=how == "dies")
        job_id, message = request(world, "large")
        await world.publish(message)
        await world.clock.run_until(lambda: world.settled() and job_id in world.store.jobs, within=400)
        struck = life.struck
        await world.clock.advance(10)  # a failed batch waits for its next try
        await check(world, [job_id])
        row = world.store.jobs[job_id]
        assert (row.state, row.result) == (JobState.SUCCEEDED, ["default", "default"])
        assert (row.queue, row.failures, row.timeout) == ("other", 2, 4 * row.policy.timeout)
        attempts = await world.store.attempts_of([job_id])
        moves = [text for one in attempts if "goes from" in (text := chosen_by_rule(one.verdict))]
        assert len(moves) == 1, "it was moved once"
        counts = {(count.queue, count.state, count.jobs) for count in await world.store.count_jobs()}
        assert counts == {("other", JobState.SUCCEEDED, 1)}
        return struck
