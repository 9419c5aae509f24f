"""Coroutines: the tasks that they leave, and leases that end while the event loop stands still."""

import asyncio
import threading
import time
from contextvars import Context
from typing import Any

import pytest
from services.agent.tests.stage import Stage, dispatched

from warrener_agent import Agent, JobContext, Snooze
from warrener_contracts import events

# -- tasks that an attempt starts end with it, unless it succeeds (point 4 of supervision) ------------------


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("raises", events.AttemptFailed),
        ("snoozes", events.AttemptFailed),
        ("hangs", events.AttemptCancelled),
        ("succeeds", events.AttemptSucceeded),
    ],
)
async def test_4_children_of_an_attempt_are_over_when_it_is_reported_unless_it_has_succeeded(
    stage: Stage, how: str, end: type[events.Event[Any]]
) -> None:
    agent, ends, tasks = Agent(), list[str](), list[asyncio.Task[None]]()

    async def child(name: str) -> None:
        try:
            tasks.append(asyncio.create_task(asyncio.sleep(3600), name=f"{name}'s child"))
            await asyncio.sleep(3600)
        finally:
            ends.append(name)

    @agent.job("parent")
    async def parent(job: JobContext, how: str) -> Any:
        tasks.append(asyncio.create_task(child("child")))
        tasks.append(asyncio.create_task(child("shared"), context=Context()))
        await asyncio.sleep(0)
        job.progress(0.5, how)
        if how == "raises":
            raise ValueError(how)
        await asyncio.sleep(3600 if how == "hangs" else 0)
        return Snooze(60) if how == "snoozes" else how

    await stage.enter(agent)
    job = await stage.dispatch("parent", {"how": how})
    if how == "hangs":
        await stage.wait_for_event(events.AttemptProgressed, job)
        await stage.cancel(job)
    await stage.wait_for_event(end, job)
    if how == "hangs":
        assert [event.data.reason for event in stage.of(events.AttemptCancelled, job)] == ["enough"]
    # What it has started in a context of its own is not the attempt's; what a success leaves may be meant to
    # stay.
    assert ends == ([] if how == "succeeds" else ["child"])
    assert sum(task.done() for task in tasks) == (0 if how == "succeeds" else 2), "the child's own too"
    last = await stage.wait_for_event(events.AttemptProgressed, job)
    assert last.data.note == how, "its last progress is published all the same"
    for task in tasks:
        task.cancel()


# -- a lease that ended while the loop stood still (the test stops the loop that it shares, as a freeze does)

LEASE = 1.0


class Walker:
    def __init__(self) -> None:
        self.agent, self.steps, self.refused = Agent(), list[float](), list[BaseException]()
        self.loop, self.walking, self.over = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        @self.agent.job("walk")
        async def walk(job: JobContext) -> None:
            while True:
                self.step()
                await asyncio.sleep(0.01)

        @self.agent.job("stubborn")
        async def stubborn(job: JobContext) -> None:
            """It takes a time limit of its own for a reason to go on."""
            while True:
                self.step()
                try:
                    async with asyncio.timeout(0.01):
                        await asyncio.Event().wait()
                except (TimeoutError, asyncio.CancelledError):
                    continue

        @self.agent.job("march", executor="thread")
        def march(job: JobContext) -> None:
            try:
                while True:
                    self.step()
                    job.progress(0.5)
                    time.sleep(0.01)
            except Exception as error:
                self.refused.append(error)
                raise
            finally:
                self.over.set()

    def step(self) -> None:
        self.steps.append(time.monotonic())
        self.loop.call_soon_threadsafe(self.walking.set)


@pytest.mark.parametrize("how", ["walk", "stubborn"])
async def test_g3_a_coroutine_takes_no_step_after_its_lease_has_ended(stage: Stage, how: str) -> None:
    walker = Walker()
    await stage.enter(walker.agent, agent_claim_ttl=LEASE)
    job = await stage.dispatch(how)
    await walker.walking.wait()
    time.sleep(1.5 * LEASE)  # noqa: ASYNC251 - the whole loop is to stand still
    thawed = time.monotonic()
    released = await stage.wait_for_event(events.AttemptReleased, job)
    assert "lease" in released.data.reason
    assert [step for step in walker.steps if step > thawed] == []
    assert not stage.of(events.AttemptFailed), "it is not charged"


async def test_g3_an_attempt_whose_lease_ends_before_its_first_step_is_given_back(stage: Stage) -> None:
    agent, begun = Agent(), list[int]()

    @agent.job("block")
    async def block(number: int) -> None:
        begun.append(number)
        time.sleep(1.5 * LEASE)  # noqa: ASYNC251 - a mistaken handler: the one beside it cannot begin

    await stage.enter(agent, agent_claim_ttl=LEASE)
    both = [dispatched("block", {"number": number}) for number in (1, 2)]
    await stage.dispatch_together(*both)
    released = await stage.wait_for_event(events.AttemptReleased)
    assert "lease" in released.data.reason
    assert len(begun) == 1, "the other one was to begin after its lease had ended"
    assert released.data.job_id == both[2 - begun[0]].data.job_id
    assert not stage.of(events.AttemptFailed), "it is not charged"


async def test_a_coroutine_whose_lease_holds_goes_on_after_a_short_stop(stage: Stage) -> None:
    walker = Walker()
    await stage.enter(walker.agent, agent_claim_ttl=20.0)
    await stage.dispatch("walk")
    await walker.walking.wait()
    time.sleep(0.5)  # noqa: ASYNC251 - the whole loop is to stand still
    before = len(walker.steps)
    await stage.until(lambda: len(walker.steps) > before + 3, "it to walk on")


async def test_g3_a_thread_is_refused_at_its_context_after_its_lease_has_ended(stage: Stage) -> None:
    walker = Walker()
    await stage.enter(walker.agent, agent_claim_ttl=LEASE)
    job = await stage.dispatch("march")
    await walker.walking.wait()
    assert walker.over.wait(20), "the loop stands still meanwhile, so nobody else can have stopped it"
    assert "lease has ended" in str(walker.refused[0])
    await stage.wait_for_event(events.AttemptReleased, job)
    assert not stage.of(events.AttemptFailed)
