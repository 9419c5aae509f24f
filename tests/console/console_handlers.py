"""Handlers of the system that the console shows."""

import asyncio
import logging
from datetime import timedelta

from warrener_agent import Agent, JobContext
from warrener_contracts.policy import Backoff

agent = Agent()
log = logging.getLogger("imports")


@agent.job("import.rows", queue="imports")
async def rows(path: str) -> dict[str, int]:
    """Import the rows of a file."""
    return {"rows": len(path)}


@agent.job(
    "import.third_time",
    queue="imports",
    max_attempts=3,
    backoff=Backoff(first=timedelta(seconds=1), jitter=0),
)
async def third_time(job: JobContext, path: str) -> str:
    """Import a file whose server is down twice."""
    log.info("the attempt reads %s", path)
    if job.attempt < 3:
        raise ConnectionError(f"the server of {path} does not answer")
    return path


@agent.job(
    "import.broken",
    queue="imports",
    max_attempts=2,
    backoff=Backoff(first=timedelta(seconds=1), jitter=0),
    depends_on=["airport"],
)
def broken(path: str, note: str) -> None:
    """Import a file that is broken."""
    log.warning("line 17 of %s is odd: %s", path, note)
    raise ValueError(f"expected 19 fields in line 17 of {path}, got 18 {note}")


@agent.job("import.long", queue="imports", timeout=86_400)
async def long(job: JobContext, path: str) -> None:
    """Import a file for a day."""
    for number in range(86_400):
        job.progress(number / 86_400, f"row {number} of {path} <b>bold</b>")
        log.info("row %d", number)
        await asyncio.sleep(1)


@agent.job("import.short", queue="imports", dispatch_batch=16)
async def short(n: int) -> int:
    """Import one row."""
    return n
