"""The handler of many jobs: some of them fail twice before they succeed. Which, says the request; how
often it has failed, says the number of the attempt, whatever was lost in between."""

from warrener_agent import Agent, Backoff, JobContext

agent = Agent()


class Unlucky(Exception):
    """It will be mended by another attempt."""


@agent.job("many", backoff=Backoff.fixed(1, jitter=0.5), max_attempts=100, max_lost_attempts=100)
@agent.job(
    "shared", backoff=Backoff.fixed(1, jitter=0.5), max_attempts=100, max_lost_attempts=100, dispatch_batch=16
)
async def many(job: JobContext, *, unlucky: bool = False) -> int:
    if unlucky and job.attempt < 3:
        raise Unlucky(f"attempt {job.attempt} of 3")
    return job.attempt
