"""The job types that the programs of this folder request."""

from warrener_agent import Agent, Workflow

agent = Agent()


@agent.job("hello.greet")
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@agent.workflow("hello.meet")
async def meet(flow: Workflow, name: str) -> str:
    """Wait until somebody opens the door."""
    host = await flow.receive("door", str)
    return f"{name} met {host}"
