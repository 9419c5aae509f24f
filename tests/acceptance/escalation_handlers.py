"""Handlers of the escalation tests."""

from pathlib import Path

from tests.acceptance.gate import pass_gate

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


@agent.job("hangs", max_lost_attempts=0)
def hangs(gate: str) -> None:
    pass_gate(Path(gate))
