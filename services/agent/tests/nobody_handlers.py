"""A handler that runs as nobody: who may not be allowed to read much of Python, so it imports little."""

import os

from warrener_agent import Agent

agent = Agent()


@agent.job("is_nobody", executor="process", user="nobody")
def is_nobody() -> tuple[int, list[int], str]:
    return os.getuid(), os.getgroups(), os.environ["USER"]
