"""Handlers that log, for the story of log lines."""

import logging
import time
from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent

agent = Agent()
_log = logging.getLogger("shop.jobs")


@agent.job("logs.waits")
def waits(gate: Path) -> None:
    _log.info("waiting")
    pass_gate(gate)
    _log.info("the gate is open")
    pass_gate(gate)


@agent.job("logs.hangs", max_attempts=1)
def hangs() -> None:
    _log.info("before the end")
    while True:
        time.sleep(60)  # the fault: its agent is killed
