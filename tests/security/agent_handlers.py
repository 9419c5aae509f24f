"""Handlers of an agent that others would like to replace: a payment waits at the gate `go`."""

from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent

agent = Agent()


@agent.job("pay", queue="payments")
def pay(invoice: int) -> int:
    pass_gate(Path("go"))
    return invoice


@agent.job("quote", queue="quotes")
async def quote(invoice: int) -> int:
    return invoice
