"""The workflow of map_sizes.py: a map over numbers, whose jobs do nothing."""

from warrener_agent import Agent, Workflow

agent = Agent()


@agent.job("nothing")
async def nothing(number: int) -> None:
    """Do nothing."""


@agent.workflow("mapped")
async def mapped(flow: Workflow, jobs: int, in_flight: int) -> int:
    """Map over so many numbers."""
    return (await flow.map(nothing, range(jobs), in_flight=in_flight)).succeeded
