"""Jobs of tenants with a limit, whose starts and ends are noted in one file, in their order."""

import asyncio
import os
from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent, JobContext, Limit

SLOTS = 3
agent = Agent()


def note(what: str, tenant: str, job: JobContext) -> None:
    """One line, whole and behind those that other processes have written before."""
    file = os.open(Path("turns"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{what} {tenant} {job.job_id}\n".encode())
    os.close(file)


@agent.job("push", gates=[Limit(SLOTS, key="{{ arguments.tenant }}")])
async def push(job: JobContext, tenant: str, *, fails: bool = False) -> None:
    note("start", tenant, job)
    try:
        await asyncio.sleep(0.05)  # the time that the other side takes
        if fails and job.attempt == 1:
            raise RuntimeError("the other side is away")
    finally:
        note("end", tenant, job)


@agent.job("hold", gates=[Limit(1)])
def hold(job: JobContext, tenant: str) -> int:
    """Wait at a gate, one for each run."""
    note("start", tenant, job)
    starts = [line for line in Path("turns").read_text().splitlines() if line.startswith("start")]
    pass_gate(Path(f"gate-{len(starts)}"))
    note("end", tenant, job)
    return os.getpid()
