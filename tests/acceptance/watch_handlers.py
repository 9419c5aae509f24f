"""A handler that works once a file is there, and one that always does."""

from pathlib import Path

from warrener_agent import Agent, Fail

agent = Agent()


@agent.job("needs")
def needs(file: str, run: int, day: str) -> str | Fail:
    """Fails for good until the file is there."""
    return f"{run} on {day}" if Path(file).exists() else Fail(f"{file} is not there")


@agent.job("works")
async def works() -> None:
    """Nothing to do."""
