"""An unexpected error while an outcome is recorded does not leave its attempt without an end."""

import asyncio

import asyncpg
from services.agent.tests.stage import WAIT, Stage

from warrener_agent import Agent, JobContext
from warrener_contracts.events import AttemptSucceeded


async def test_g1_an_outcome_that_met_an_unexpected_error_is_reported_when_the_error_is_gone(
    stage: Stage, postgres_url: str
) -> None:
    agent, begun, go_on = Agent(), asyncio.Event(), asyncio.Event()

    @agent.job("waits")
    async def waits(job: JobContext) -> int:
        begun.set()
        await go_on.wait()
        return job.attempt

    @agent.job("other")
    async def other() -> str:
        return "not held up"

    stage.ledger_url = postgres_url
    await stage.enter(agent)
    job = await stage.dispatch("waits")
    async with asyncio.timeout(WAIT):
        await begun.wait()
    connection = await asyncpg.connect(postgres_url)
    try:
        refuse = f"CHECK (job_id <> '{job}' OR finished_at IS NULL)"
        await connection.execute(f"ALTER TABLE warrener_ledger ADD CONSTRAINT refused {refuse}")
        go_on.set()
        assert (await stage.succeed("other")).result == "not held up"
        assert not stage.of(AttemptSucceeded, job), "it cannot be recorded"
        await connection.execute("ALTER TABLE warrener_ledger DROP CONSTRAINT refused")
    finally:
        await connection.close()
    assert (await stage.wait_for_event(AttemptSucceeded, job)).data.result == 1
