"""Handlers of the escalation tests."""

from pathlib import Path

from warrener_agent import Agent, JobContext

agent = Agent()


class Declined(Exception):
    """The card is declined."""


@agent.job("bank.pay", max_attempts=1)
async def pay(order: int) -> None:
    raise Declined(f"order {order}")


@agent.job("orders.cancel")
def cancel(job: JobContext, order: int) -> None:
    with Path("cancelled").open("a") as out:
        out.write(f"{order} {job.job_id}\n")
