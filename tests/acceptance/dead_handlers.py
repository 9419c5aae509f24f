"""Handlers of the dead letter tests, in agents of their own processes. A file says what was loaded."""

from pathlib import Path

from warrener_agent import Agent

agent = Agent()

MENDED = Path("mended")
"""While it is there, the cause is gone."""


class WrongForm(ValueError):
    """The file is of another year's form."""


@agent.job("flights.load", max_attempts=1)
def load(number: int) -> int:
    if not MENDED.exists():
        raise WrongForm(f"file {number}: expected 17 columns")
    with Path("loaded").open("a") as file:
        file.write(f"{number}\n")
    return number
