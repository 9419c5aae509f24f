"""A job type that is announced after its first requests."""

from warrener_agent import Agent

agent = Agent()


@agent.job("bills.late", queue="late")
async def pay_late(amount: int) -> int:
    return amount
