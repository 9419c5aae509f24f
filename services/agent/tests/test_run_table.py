"""An attempt whose job type has a `heartbeat_timeout` is stopped when it falls silent, whatever its timeout
(point 2 of supervision)."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from services.agent.tests.stage import Stage

from warrener_agent import Agent, JobContext, JobDefinitionError, Program
from warrener_agent.run_table import HandlerHeartbeat
from warrener_contracts.events import AttemptFailed, AttemptSucceeded, ErrorKind

SIGNS = ["alive", "progress", "checkpoint"]


def send_sign(job: JobContext, sign: str) -> None:
    match sign:
        case "progress":
            job.progress(0.5)
        case "checkpoint":
            job.checkpoint({"at": 1})
        case _:
            job.alive()


def agent_with_heartbeats(over: threading.Event) -> Agent:
    """Handlers that say for a second that they live, and then return or fall silent."""
    agent = Agent()

    @agent.job("waits", heartbeat_timeout=0.5)
    async def waits(job: JobContext, sign: str, *, hangs: bool) -> str:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            send_sign(job, sign)
            await asyncio.sleep(0.05)
        if hangs:
            await asyncio.Event().wait()
        return sign

    @agent.job("blocks", heartbeat_timeout=0.5)
    def blocks(job: JobContext, sign: str, *, hangs: bool) -> str:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            send_sign(job, sign)
            over.wait(0.05)
        while hangs and not job.stopping:
            over.wait(0.05)
        return sign

    return agent


@pytest.mark.parametrize("job_type", ["waits", "blocks"])
@pytest.mark.parametrize("sign", SIGNS)
async def test_2_a_handler_that_sends_heartbeats_goes_on_and_a_silent_one_times_out(
    stage: Stage, job_type: str, sign: str
) -> None:
    await stage.enter(agent_with_heartbeats(threading.Event()))
    lives = await stage.dispatch(job_type, {"sign": sign, "hangs": False})
    hangs = await stage.dispatch(job_type, {"sign": sign, "hangs": True})
    assert (await stage.wait_for_event(AttemptSucceeded, lives)).data.result == sign
    error = (await stage.wait_for_event(AttemptFailed, hangs)).data.error
    assert (error.kind, error.type, error.retryable) == (ErrorKind.TIMEOUT, "timeout", True)
    assert error.message == "expected a sign of life within its heartbeat_timeout of 0.5 s, it was silent"
    assert error.flight_record is not None


async def test_2_a_sign_of_life_while_stopping_does_not_hide_the_silence_before(
    stage: Stage,
) -> None:
    agent = Agent()

    @agent.job("tidies", heartbeat_timeout=0.5)
    async def tidies(job: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            job.progress(0.1, "tidying up")

    await stage.enter(agent)
    job = await stage.dispatch("tidies", timeout=timedelta(seconds=0.8))
    assert "heartbeat_timeout" in (await stage.wait_for_event(AttemptFailed, job)).data.error.message


def test_2_time_that_is_over_counts_before_silence() -> None:
    now = 0.0
    heartbeat = HandlerHeartbeat(10, timeout_at=15, now=lambda: now)
    assert (heartbeat.due, heartbeat.is_expired) == (10, True)
    now = 8
    heartbeat.beat()
    assert (heartbeat.due, heartbeat.is_expired) == (15, False)


def test_2_a_program_cannot_have_a_heartbeat_timeout() -> None:
    with pytest.raises(JobDefinitionError, match="no heartbeat_timeout for a program"):
        Agent().command("dump", Program(["true"]), heartbeat_timeout="1m")
