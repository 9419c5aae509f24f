"""A handler that a child process imports."""

import os

from warrener_agent import Agent

agent = Agent()


@agent.job("variables", executor="process")
def variables() -> dict[str, str]:
    return dict(os.environ)
