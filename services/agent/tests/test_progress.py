"""Progress and checkpoints: when they are saved and published, and what the next attempt receives."""

import asyncio
import logging
import math
from typing import Any, cast
from uuid import uuid4

import pytest
from services.agent.tests.stage import SlowLedger, Stage

from warrener_agent import Agent, JobContext
from warrener_agent.decisions.intake import newest_checkpoint
from warrener_agent.ledger import Ledger, SavedCheckpoint, open_ledger
from warrener_agent.testing import run
from warrener_contracts.events import (
    AttemptCheckpointed,
    AttemptFailed,
    AttemptProgressed,
    AttemptSucceeded,
    Checkpoint,
)

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


@agent.job("hurries")
async def hurries(job: JobContext) -> None:
    job.progress(0.5, "half")
    await asyncio.sleep(0)
    job.progress(1.0, "whole")


async def test_the_last_progress_is_published_before_the_end_of_its_attempt(stage: Stage) -> None:
    await stage.enter(agent)
    await stage.succeed("hurries")
    published = [
        event for event in stage.received_events if isinstance(event, AttemptProgressed | AttemptSucceeded)
    ]
    assert isinstance(published[-1], AttemptSucceeded)
    last = published[-2]
    assert isinstance(last, AttemptProgressed)
    assert (last.data.fraction, last.data.note) == (1.0, "whole")


async def test_a_checkpoint_is_published_before_the_end_of_its_attempt(stage: Stage) -> None:
    await stage.enter(agent)
    job_id = await stage.dispatch("goes.on")
    await stage.wait_for_event(AttemptFailed, job_id)
    published = [
        event for event in stage.received_events if isinstance(event, AttemptCheckpointed | AttemptFailed)
    ]
    assert [type(event) for event in published] == [AttemptCheckpointed, AttemptFailed]
    assert stage.of(AttemptCheckpointed)[0].data.checkpoint == Checkpoint(number=1, state={"row": 2}), (
        "of two the last"
    )
    await stage.dispatch("goes.on", job_id=job_id, attempt=2)
    assert (await stage.wait_for_event(AttemptSucceeded, job_id)).data.result == {"row": 2}


async def test_what_comes_with_the_dispatch_is_found_where_the_ledger_knows_nothing(stage: Stage) -> None:
    await stage.enter(agent)
    elsewhere = Checkpoint(number=7, state="from elsewhere")
    assert (await stage.succeed("goes.on", attempt=2, checkpoint=elsewhere)).result == "from elsewhere"


async def test_numbers_go_on_from_what_was_found(stage: Stage) -> None:
    await stage.enter(agent)
    elsewhere = Checkpoint(number=7, state="from elsewhere")
    job_id = await stage.dispatch("runs.on", attempt=2, checkpoint=elsewhere)
    published = await stage.wait_for_event(AttemptCheckpointed, job_id)
    assert published.data.checkpoint == Checkpoint(number=8, state="here")


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
    await stage.enter(failing, ledger=cast("Ledger", ledger))
    job_id = await stage.dispatch("fails")
    await ledger.begun.wait()
    fails.set()
    await stage.succeed("fails", checkpoint=Checkpoint(number=1, state="done"))
    ledger.go_on.set()
    await stage.wait_for_event(AttemptFailed, job_id)
    published = [
        event for event in stage.received_events if isinstance(event, AttemptCheckpointed | AttemptFailed)
    ]
    assert [type(event) for event in published] == [AttemptCheckpointed, AttemptFailed]
    await stage.dispatch("fails", job_id=job_id, attempt=2)
    assert (await stage.wait_for_event(AttemptSucceeded, job_id)).data.result == "far"


@pytest.mark.parametrize(
    ("saved", "published", "found"),
    [(2, None, "ledger"), (None, 2, "dispatch"), (2, 3, "dispatch"), (3, 2, "ledger"), (2, 2, "ledger")],
)
def test_of_two_the_greater_number_is_newer(saved: int | None, published: int | None, found: str) -> None:
    one = saved and SavedCheckpoint(uuid4(), 1, saved, '"ledger"')
    other = published and Checkpoint(number=published, state="dispatch")
    assert newest_checkpoint(one or None, other or None).state == found


async def test_a_handler_is_tried_with_a_checkpoint_of_the_tests_own() -> None:
    first = await run(agent, "goes.on")
    assert (first.succeeded, first.checkpoints) == (False, [{"row": 1}, {"row": 2}])
    again = await run(agent, "goes.on", last_checkpoint=first.checkpoints[-1])
    assert again.result == {"row": 2}


async def test_progress_is_published_and_throttled(stage: Stage) -> None:
    advisor = Agent()

    @advisor.job("busy")
    async def busy(job: JobContext) -> None:
        for step in range(1000):
            job.progress(step / 1000, f"step {step}")
        await asyncio.Event().wait()

    await stage.enter(advisor)
    job = await stage.dispatch("busy")
    reported = (await stage.wait_for_event(AttemptProgressed, job)).data
    assert reported.note == "step 999"
    assert len(stage.of(AttemptProgressed)) == 1


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
    assert (await stage.wait_for_event(AttemptSucceeded, job)).data.result == "done"
    seen = {(event.data.fraction, event.data.note) for event in stage.of(AttemptProgressed, job)}
    assert seen == (set() if reported is None else {reported})
    warnings = [record for record in caplog.records if record.name == "warrener.progress"]
    assert len(warnings) == 1, "once"
