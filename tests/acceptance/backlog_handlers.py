"""Handlers of the tests of backlogs, in two queues. Each run notes itself."""

from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, JobContext

agent = Agent()


@agent.job("purged", queue="purged")
async def purged(job: JobContext) -> None:
    note_run(job)


@agent.job("deleted", queue="deleted")
async def deleted(job: JobContext) -> None:
    note_run(job)
