"""The ledger's database goes while a handler works: it is killed for real."""

import asyncio

import pytest
from services.agent.tests.stage import Stage
from tests.servers.kinds import PostgresServer

from warrener_agent import Agent, JobContext
from warrener_contracts.events import AttemptFailed, AttemptReleased, AttemptSucceeded


class Writer:
    """A handler that writes, and lets the test in before its transaction commits."""

    def __init__(self, *, write_again: bool) -> None:
        self.agent = Agent()
        self.written = asyncio.Event()
        self.go_on = asyncio.Event()

        @self.agent.job("write", guarantee="transactional")
        async def write(job: JobContext) -> int:
            transaction = await job.transaction()
            await transaction.execute("CREATE TABLE IF NOT EXISTS effects (note TEXT)")
            await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": f"by {job.attempt}"})
            self.written.set()
            await self.go_on.wait()
            if write_again:
                await transaction.execute("INSERT INTO effects VALUES ('more')")
            return job.attempt


@pytest.mark.parametrize("write_again", [False, True], ids=["at the commit", "between two statements"])
async def test_g4_a_database_killed_in_the_middle_of_a_transaction_costs_an_attempt_and_doubles_nothing(
    stage: Stage, own_postgres: PostgresServer, *, write_again: bool
) -> None:
    stage.ledger_url = own_postgres.url
    writer = Writer(write_again=write_again)
    await stage.enter(writer.agent)
    job = await stage.dispatch("write")
    async with asyncio.timeout(20):
        await writer.written.wait()
    await asyncio.to_thread(own_postgres.kill)
    writer.go_on.set()
    await asyncio.to_thread(own_postgres.start)

    # A commit that cannot be is given back; a statement that cannot be is the handler's error, tried again.
    if write_again:
        assert (await stage.wait_for_event(AttemptFailed, job)).data.error.retryable
    else:
        await stage.wait_for_event(AttemptReleased, job)
    assert not stage.of(AttemptSucceeded)

    await stage.dispatch("write", job_id=job, attempt=2)  # as the supervisor does then
    assert (await stage.wait_for_event(AttemptSucceeded, job)).data.result == 2
    assert sorted(await stage.effects()) == (["by 2", "more"] if write_again else ["by 2"])
