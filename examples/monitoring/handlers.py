"""The agent of every host. It serves the queue of its host alone, so a job of that queue runs there."""

import os
import platform
import shutil
from pathlib import Path

from pydantic import BaseModel

from warrener_agent import Agent, Fail

agent = Agent()


class Figures(BaseModel):
    """The figures of a host."""

    node: str
    disk: float  # share of the disk that is used
    load: float  # of the last minute, for each processor


# One attempt: the next report comes soon, and has newer figures.
@agent.job("monitoring.report", timeout="10s", max_attempts=1)
def report(disk: Path = Path("/"), disk_limit: float = 0.95, load_limit: float = 20.0) -> Figures:
    """Report the figures of this host; raises Fail for one that is over its limit."""
    usage = shutil.disk_usage(disk)
    figures = Figures(
        node=platform.node(),
        disk=round(usage.used / usage.total, 3),
        load=round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
    )
    if figures.disk > disk_limit or figures.load > load_limit:
        raise Fail(f"expected at most {disk_limit} of {disk} and a load of {load_limit}, got {figures}")
    return figures
