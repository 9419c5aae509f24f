"""The jobs of children.py: the same handler by itself, in a map, and called one after another."""

from warrener_agent import Agent, Workflow

agent = Agent()


@agent.job("noop", dispatch_batch=16)
async def noop(number: int) -> int:
    """Nothing."""
    return number


@agent.workflow("mapped")
async def mapped(flow: Workflow, children: int) -> int:
    """A map."""
    return (await flow.map(noop, range(children), in_flight=children)).succeeded


@agent.workflow("in_a_row")
async def in_a_row(flow: Workflow, children: int) -> int:
    """One after another."""
    return len([await flow.call(noop, number=number) for number in range(children)])
