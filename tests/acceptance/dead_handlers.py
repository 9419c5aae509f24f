"""Handlers of the dead letter tests, in agents of their own processes. Files say what they have done."""

import os
from pathlib import Path

from warrener_agent import Agent

agent = Agent()

MENDED = Path("mended")
"""While it is there, the cause is gone."""


class WrongForm(ValueError):
    """The file is of another year's form."""


def note(file: str, number: int) -> None:
    """One line, whole, whoever else writes."""
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, f"{number}\n".encode())
    os.close(out)


def read(number: int) -> None:
    note("tried", number)
    if not MENDED.exists():
        raise WrongForm(f"file {number}: expected 17 columns")


@agent.job("flights.load", max_attempts=1)
def load(number: int) -> int:
    read(number)
    note("loaded", number)
    return number
