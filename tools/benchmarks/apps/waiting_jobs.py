"""The job of waiting.py: each start of it is a line in a file."""

import os

from warrener_agent import Agent

agent = Agent()
_STARTS = os.open(os.environ["WAITING_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


@agent.job("counted", dispatch_batch=1, start_timeout=os.environ["WAITING_START_TIMEOUT"])
async def counted(number: int) -> None:
    """Say that it was started."""
    os.write(_STARTS, b"%d\n" % number)
