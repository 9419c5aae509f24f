"""Handlers of the retry tests, in agents of their own processes. Each run notes itself first."""

from pathlib import Path

from tests.acceptance.run_notes import note_run, runs_in

from warrener_agent import Agent, Backoff, JobContext, RetryAfter

agent = Agent()


def runs_before(job: JobContext) -> int:
    """How often the job has run before; this run is noted."""
    note_run(job)
    return sum(run.job_id == job.job_id for run in runs_in(Path())) - 1


class Shaky(OSError):
    """May be mended by another attempt."""


@agent.job("shaky", backoff=Backoff.fixed("15s", jitter=0))
def shaky(job: JobContext, failures: int = 1) -> int:
    before = runs_before(job)
    if before < failures:
        raise Shaky(f"run {before + 1} of {failures + 1}")
    return before


@agent.job("later")
def later(job: JobContext, delay: str) -> int | RetryAfter:
    before = runs_before(job)
    return before if before else RetryAfter(delay, "closed until then")
