"""Handlers that log, for the story of log lines."""

import logging
import sys
import time
from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent, Program

agent = Agent()
_log = logging.getLogger("shop.jobs")


@agent.job("logs.fails", max_attempts=1)
def fails() -> None:
    _log.info("842 rows to load")
    _log.warning("row 512 is bad")
    raise ValueError("no good")


@agent.job("logs.process", executor="process")
def in_process() -> None:
    print("printed")
    _log.info("logged")


@agent.job("logs.waits")
def waits(gate: Path) -> None:
    _log.info("waiting")
    pass_gate(gate)
    _log.info("the gate is open")
    pass_gate(gate)


@agent.job("logs.flood")
def flood() -> None:
    for number in range(100_000):
        _log.info("line %d", number)


@agent.job("logs.quiet")
async def quiet() -> str:
    return "done"


@agent.job("logs.hangs", max_attempts=1)
def hangs() -> None:
    _log.info("before the end")
    while True:
        time.sleep(60)  # the fault: its agent is killed


PRINTS = "import sys; print('to stdout', flush=True); print('to stderr', file=sys.stderr)"
agent.command("logs.program", Program([sys.executable, "-c", PRINTS], stdin="nothing"))
