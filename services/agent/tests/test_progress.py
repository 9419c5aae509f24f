"""Progress, checkpoints and other signs of life: when they are saved and published, and silence."""

import asyncio
import logging
import math
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from services.agent.tests.processes import until
from services.agent.tests.stage import LONG, HastenedClock, SlowLedger, Stage

from warrener_agent import Agent, JobContext, JobDefinitionError, Program
from warrener_agent.decisions.intake import newest_checkpoint
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import SavedCheckpoint
from warrener_agent.run_table import HandlerHeartbeat
from warrener_agent.testing import run
from warrener_contracts import events

agent = Agent()


@agent.job("goes.on")
async def goes_on(job: JobContext) -> Any:
    if job.last_checkpoint is None:
        job.checkpoint({"row": 1})
        job.checkpoint({"row": 2})
        raise RuntimeError("not today")
    return job.last_checkpoint


@agent.job("runs.on")
async def runs_on(job: JobContext) -> None:
    job.checkpoint("here")
    await asyncio.Event().wait()


async def test_progress_is_throttled_and_the_last_is_published_before_the_end_of_its_attempt(
    stage: Stage,
) -> None:
    busy, go_on = Agent(), asyncio.Event()

    @busy.job("busy")
    async def report(job: JobContext) -> None:
        for step in range(1000):
            job.progress(step / 1000, f"step {step}")
        await go_on.wait()
        job.progress(1.0, "whole")

    await stage.enter(busy)
    job_id = await stage.dispatch("busy")
    assert (await stage.wait_for_event(events.AttemptProgressed, job_id)).data.note == "step 999"
    go_on.set()
    await stage.wait_for_event(events.AttemptSucceeded, job_id)
    assert [event.data.note for event in stage.of(events.AttemptProgressed)] == ["step 999", "whole"]
    last = [type(event) for event in stage.about(job_id)][-2:]
    assert last == [events.AttemptProgressed, events.AttemptSucceeded]


async def test_a_checkpoint_is_published_before_the_end_of_its_attempt(stage: Stage) -> None:
    await stage.enter(agent, agent_announce_delay=600.0)
    job_id = await stage.dispatch("goes.on")
    await stage.wait_for_event(events.AttemptFailed, job_id)
    assert [type(event) for event in stage.about(job_id)] == [
        events.AttemptCheckpointed,
        events.AttemptFailed,
    ]
    assert stage.of(events.AttemptCheckpointed)[0].data.checkpoint == events.Checkpoint(
        number=1, state={"row": 2}
    ), "of two the last"
    await stage.dispatch("goes.on", job_id=job_id, attempt=2)
    assert (await stage.wait_for_event(events.AttemptSucceeded, job_id)).data.result == {"row": 2}


async def test_a_checkpoint_of_the_dispatch_is_found_where_the_ledger_has_none_and_numbers_go_on(
    stage: Stage,
) -> None:
    await stage.enter(agent)
    elsewhere = events.Checkpoint(number=7, state="from elsewhere")
    assert (await stage.succeed("goes.on", attempt=2, checkpoint=elsewhere)).result == "from elsewhere"
    job_id = await stage.dispatch("runs.on", attempt=2, checkpoint=elsewhere)
    published = await stage.wait_for_event(events.AttemptCheckpointed, job_id)
    assert published.data.checkpoint == events.Checkpoint(number=8, state="here")


async def test_an_attempt_that_fails_while_its_checkpoint_is_being_saved_waits_for_that(stage: Stage) -> None:
    failing, fails = Agent(), asyncio.Event()

    @failing.job("fails")
    async def fails_on_signal(job: JobContext) -> Any:
        if job.last_checkpoint is not None:
            return job.last_checkpoint
        job.checkpoint("far")
        await fails.wait()
        raise RuntimeError("not today")

    ledger = SlowLedger(open_ledger(stage.ledger_url), "save_checkpoints")
    await stage.enter(failing, ledger=ledger)
    job_id = await stage.dispatch("fails")
    await ledger.begun.wait()
    fails.set()
    await stage.succeed("fails", checkpoint=events.Checkpoint(number=1, state="done"))
    ledger.go_on.set()
    await stage.wait_for_event(events.AttemptFailed, job_id)
    ends = [event for event in stage.about(job_id) if not isinstance(event, events.AttemptStarted)]
    assert [type(event) for event in ends] == [events.AttemptCheckpointed, events.AttemptFailed]
    await stage.dispatch("fails", job_id=job_id, attempt=2)
    assert (await stage.wait_for_event(events.AttemptSucceeded, job_id)).data.result == "far"


@pytest.mark.parametrize(
    ("saved", "published", "found"),
    [(2, None, "ledger"), (None, 2, "dispatch"), (2, 3, "dispatch"), (3, 2, "ledger"), (2, 2, "ledger")],
)
def test_of_two_the_greater_number_is_newer(saved: int | None, published: int | None, found: str) -> None:
    one = saved and SavedCheckpoint(uuid4(), 1, saved, '"ledger"')
    other = published and events.Checkpoint(number=published, state="dispatch")
    assert newest_checkpoint(one or None, other or None).state == found


async def test_a_handler_is_tried_with_a_checkpoint_of_the_tests_own() -> None:
    first = await run(agent, "goes.on")
    assert (first.succeeded, first.checkpoints) == (False, [{"row": 1}, {"row": 2}])
    again = await run(agent, "goes.on", last_checkpoint=first.checkpoints[-1])
    assert again.result == {"row": 2}


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("never")


@pytest.mark.parametrize(
    ("fraction", "note", "reported"),
    [
        (1.0044, "", (1.0, "")),
        (-1e-9, "begun", (0.0, "begun")),
        (math.inf, "x" * 100_000, (1.0, "x" * 500)),
        (math.nan, "lost", None),
        ("half", "", None),
        (0.5, {"rows": 3}, (0.5, "{'rows': 3}")),
        (0.5, Unprintable(), (0.5, "Unprintable")),
        (Unprintable(), Unprintable(), None),
    ],
)
async def test_progress_is_advice_and_never_fails_finished_work(
    stage: Stage,
    caplog: pytest.LogCaptureFixture,
    fraction: Any,
    note: Any,
    reported: tuple[float, str] | None,
) -> None:
    caplog.set_level(logging.WARNING, logger="warrener.progress")
    advisor = Agent()

    @advisor.job("counts")
    async def counts(job: JobContext) -> str:
        for _ in range(3):
            job.progress(fraction, note)
        return "done"

    await stage.enter(advisor)
    job = await stage.dispatch("counts")
    assert (await stage.wait_for_event(events.AttemptSucceeded, job)).data.result == "done"
    seen = {(event.data.fraction, event.data.note) for event in stage.of(events.AttemptProgressed, job)}
    assert seen == (set() if reported is None else {reported})
    warnings = [record for record in caplog.records if record.name == "warrener.progress"]
    assert len(warnings) == 1, "once"


# -- signs of life of job types with a `heartbeat_timeout` (point 2 of supervision) ---------------------


SIGNS: dict[str, Callable[[JobContext], None]] = {
    "alive": JobContext.alive,
    "progress": lambda job: job.progress(0.5),
    "checkpoint": lambda job: job.checkpoint({"at": 1}),
}
PATIENCE = timedelta(minutes=1)


class Beating:
    def __init__(self) -> None:
        self.agent, self.signs = Agent(), 0
        self.over, self.is_silent, self.end = (threading.Event() for _ in range(3))

        @self.agent.job("waits", heartbeat_timeout=PATIENCE)
        async def waits(job: JobContext, sign: str) -> None:
            while not self.over.is_set():
                self._send(job, sign)
                await asyncio.sleep(0.01)
            self.is_silent.set()
            await asyncio.Event().wait()

        @self.agent.job("blocks", heartbeat_timeout=PATIENCE)
        def blocks(job: JobContext, sign: str) -> None:
            while not self.over.wait(0.01):
                self._send(job, sign)
            self.is_silent.set()
            self.end.wait()

    def _send(self, job: JobContext, sign: str) -> None:
        SIGNS[sign](job)
        self.signs += 1

    async def send_more(self) -> None:
        count = self.signs + 2
        await until(lambda: self.signs >= count)


@pytest.mark.parametrize("job_type", ["waits", "blocks"])
@pytest.mark.parametrize("sign", SIGNS)
async def test_2_a_handler_that_sends_heartbeats_goes_on_and_a_silent_one_times_out(
    stage: Stage, job_type: str, sign: str
) -> None:
    beating, clock = Beating(), HastenedClock()
    await stage.enter(beating.agent, clock=clock, agent_claim_ttl=3600.0)
    hangs = await stage.dispatch(job_type, {"sign": sign}, timeout=LONG)
    try:
        await beating.send_more()
        for _ in range(3):
            clock.skip(0.7 * PATIENCE)
            await beating.send_more()
        beating.over.set()
        await until(beating.is_silent.is_set)
        assert not stage.of(events.AttemptFailed)
        clock.skip(PATIENCE)
        error = (await stage.wait_for_event(events.AttemptFailed, hangs)).data.error
    finally:
        beating.end.set()
    assert (error.kind, error.type, error.retryable) == (events.ErrorKind.TIMEOUT, "timeout", True)
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
    assert "heartbeat_timeout" in (await stage.wait_for_event(events.AttemptFailed, job)).data.error.message


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
