"""Handlers with a secret in their results and errors, for the tests of those who try to read it."""

from warrener_agent import Agent, Backoff

SECRET = "DE89370400440532013000"
agent = Agent()


@agent.job("pay")
async def pay(invoice: int) -> dict[str, str | int]:
    return {"invoice": invoice, "account": SECRET}


@agent.job("refuse", max_attempts=2, backoff=Backoff.fixed(0))
async def refuse() -> None:
    raise ValueError(f"no such account: {SECRET}")


@agent.job("rates.publish", public=True)
async def publish_rates() -> dict[str, float]:
    return {"EUR": 1.08}
