"""Handlers of jobs whose next attempt depends on how the earlier ones have ended."""

import asyncio
import os

from warrener_agent import Agent, Backoff, JobContext, Limits, RetryRule

agent = Agent()
_MIB = 1 << 20


@agent.job(
    "report.build",
    executor="process",
    limits=Limits(memory=os.environ.get("REPORT_MEMORY", "256MiB")),
    backoff=Backoff.fixed("1s"),
    retry_rules=[RetryRule(errors=["memory"], after=2, queue="high-memory")],
)
def build_report(job: JobContext) -> list[str]:
    held = bytearray(b"x") * (400 * _MIB)
    return [f"{one.attempt} {one.error} in {one.queue}" for one in job.history.attempts][: len(held)]


@agent.job(
    "index.rebuild",
    timeout="1s",
    retry_rules=[RetryRule(errors=["timeout"], timeout_factor=60, max_timeout="50s")],
)
async def rebuild_index(job: JobContext) -> int:
    if not job.history.count("timeout"):
        await asyncio.Event().wait()  # longer than a second
    return job.attempt
