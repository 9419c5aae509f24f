"""Job types whose requests are signed; each payment leaves a line in the file `paid`."""

from pathlib import Path

from warrener_agent import Agent, Fail, JobContext

agent = Agent()


@agent.job("bills.pay")
async def pay(job: JobContext, amount: int) -> int:
    with Path("paid").open("a") as file:  # noqa: ASYNC230 - a line
        file.write(f"{job.job_id}\n")
    return amount


@agent.job("bills.split")
async def split(job: JobContext, amount: int) -> int:
    job.request("bills.pay", {"amount": amount}, key="first")
    return amount


@agent.job("bills.refuse", max_attempts=1)
async def refuse(amount: int) -> None:
    raise Fail(f"{amount} is too much")


@agent.job("payroll.run")
async def run_payroll(job: JobContext, amount: int = 0) -> int:
    return await pay(job, amount)
