"""An attempt whose job type has a `heartbeat_timeout` is stopped when it falls silent, whatever its timeout
(point 2 of supervision)."""

import asyncio
import threading
from collections import Counter
from datetime import timedelta

import pytest
from services.agent.tests.stage import LONG, WAIT, HastenedClock, Stage

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


PATIENCE = timedelta(minutes=1)


class Beating:
    """Handlers that say again and again that they live, until they are let, and then return or fall
    silent."""

    def __init__(self) -> None:
        self.agent, self.over, self.end = Agent(), threading.Event(), threading.Event()
        self.signs: Counter[bool] = Counter()  # of the one that hangs in the end, and of the other one
        self.is_silent = threading.Event()

        @self.agent.job("waits", heartbeat_timeout=PATIENCE)
        async def waits(job: JobContext, sign: str, *, hangs: bool) -> str:
            while not self.over.is_set():
                self._send(job, sign, hangs=hangs)
                await asyncio.sleep(0.01)
            if hangs:
                self.is_silent.set()
                await asyncio.Event().wait()
            return sign

        @self.agent.job("blocks", heartbeat_timeout=PATIENCE)
        def blocks(job: JobContext, sign: str, *, hangs: bool) -> str:
            while not self.over.wait(0.01):
                self._send(job, sign, hangs=hangs)
            if hangs:
                self.is_silent.set()
                self.end.wait()
            return sign

    def _send(self, job: JobContext, sign: str, *, hangs: bool) -> None:
        send_sign(job, sign)
        self.signs[hangs] += 1

    async def send_more(self) -> None:
        """Wait until both have sent a whole sign from now on."""
        until = {hangs: self.signs[hangs] + 2 for hangs in (False, True)}
        async with asyncio.timeout(WAIT):
            while any(self.signs[hangs] < count for hangs, count in until.items()):  # noqa: ASYNC110 - threads
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("job_type", ["waits", "blocks"])
@pytest.mark.parametrize("sign", SIGNS)
async def test_2_a_handler_that_sends_heartbeats_goes_on_and_a_silent_one_times_out(
    stage: Stage, job_type: str, sign: str
) -> None:
    beating, clock = Beating(), HastenedClock()
    await stage.enter(beating.agent, clock=clock, agent_claim_ttl=3600.0)
    lives = await stage.dispatch(job_type, {"sign": sign, "hangs": False}, timeout=LONG)
    hangs = await stage.dispatch(job_type, {"sign": sign, "hangs": True}, timeout=LONG)
    try:
        await beating.send_more()
        for _ in range(3):
            clock.skip(0.7 * PATIENCE)
            await beating.send_more()
        beating.over.set()
        assert (await stage.wait_for_event(AttemptSucceeded, lives)).data.result == sign
        assert await asyncio.to_thread(beating.is_silent.wait, WAIT)
        assert not stage.of(AttemptFailed)
        clock.skip(PATIENCE)
        error = (await stage.wait_for_event(AttemptFailed, hangs)).data.error
    finally:
        beating.end.set()
    assert (error.kind, error.type, error.retryable) == (ErrorKind.TIMEOUT, "timeout", True)
    assert error.message == "expected a sign of life within its heartbeat_timeout of 60 s, it was silent"
    assert error.flight_record is not None


async def test_2_a_sign_of_life_while_stopping_does_not_hide_the_silence_before(stage: Stage) -> None:
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
