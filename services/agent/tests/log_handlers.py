"""Handlers that log, one for each executor; child processes import this module by its name."""

import asyncio
import logging
import os
import sys

import structlog
from pydantic import BaseModel

from warrener_agent import Agent, Program

agent = Agent()
_log = logging.getLogger("shop.jobs")
_structured = structlog.get_logger()


def _write(end: str) -> None:
    _log.info("842 rows to load")
    _log.debug("not at this level")
    _structured.warning("a row was left out", row=512)
    if end == "fail":
        raise ValueError("no good")


@agent.job("logs.coroutine")
async def coroutine(end: str = "") -> None:
    async with asyncio.TaskGroup() as group:  # a task of its own belongs to the attempt too
        group.create_task(asyncio.to_thread(_write, end))


@agent.job("logs.thread")
def thread(end: str = "") -> None:
    _write(end)


@agent.job("logs.process", executor="process")
def process(end: str = "") -> None:
    print("printed")
    _write(end)
    sys.stderr.buffer.write(b"\xff\x00\x1b[31mred\n")
    if end == "die":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(3)


class Words(BaseModel):
    code: int = 0


agent.command(
    "logs.command",
    Program(
        [
            sys.executable,
            "-c",
            "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(int(sys.argv[1]))",
            "{{ code }}",
        ],
        stdin="nothing",
    ),
    arguments=Words,
)
