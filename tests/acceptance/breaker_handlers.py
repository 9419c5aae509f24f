"""Handlers of the breaker tests: a bill needs an API that is down while a file says so."""

from pathlib import Path

from warrener_agent import Agent, Backoff, BreakerPolicy, JobContext

agent = Agent()


class BillingDown(OSError):
    """The API does not answer."""


@agent.job(
    "bill",
    depends_on="billing-api",
    breaker=BreakerPolicy(
        failure_rate=0.5,
        window="30s",
        minimum_calls=5,
        open_duration="1s",
        max_open_duration="3s",
        half_open_calls=2,
    ),
    max_attempts=4,
    backoff=Backoff.fixed(1, jitter=0),
)
def bill(job: JobContext, number: int) -> int:
    with Path("bills").open("a") as out:
        out.write(f"{job.job_id} {job.attempt}\n")
    if Path("billing-is-down").exists():
        raise BillingDown("503")
    return number


@agent.job("mail")
def mail(number: int) -> int:
    return number
