"""Point 4 of supervision: the tasks that an attempt has started do not outlive it, unless it succeeds."""

import asyncio
from contextvars import Context

import pytest
from services.agent.tests.stage import Stage

from warrener_agent import Agent, JobContext, Snooze
from warrener_contracts.events import (
    AttemptCancel,
    AttemptCancelData,
    AttemptCancelled,
    AttemptFailed,
    AttemptProgressed,
    AttemptSucceeded,
)
from warrener_contracts.messages import build_message


class Nursery:
    """A handler whose children say how they end."""

    def __init__(self) -> None:
        self.agent = Agent()
        self.ends: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

        @self.agent.job("parent")
        async def parent(job: JobContext, how: str) -> object:
            return await self.parent(job, how)

    async def parent(self, job: JobContext, how: str) -> object:
        self.tasks.append(asyncio.create_task(self.child("child")))
        self.tasks.append(asyncio.create_task(self.child("shared"), context=Context()))
        await asyncio.sleep(0)
        job.progress(0.5, how)
        match how:
            case "raises":
                raise ValueError(how)
            case "snoozes":
                return Snooze(60)
            case "hangs":
                await asyncio.sleep(3600)
            case _:
                pass
        return how

    async def child(self, name: str) -> None:
        try:
            self.tasks.append(asyncio.create_task(asyncio.sleep(3600), name=f"{name}'s child"))
            await asyncio.sleep(3600)
        finally:
            self.ends.append(name)

    def leave(self) -> None:
        for task in self.tasks:
            task.cancel()


@pytest.mark.parametrize("how", ["raises", "snoozes"])
async def test_4_children_of_a_failed_attempt_are_over_when_it_is_reported(stage: Stage, how: str) -> None:
    nursery = Nursery()
    await stage.enter(nursery.agent)
    job = await stage.dispatch("parent", {"how": how})
    await stage.wait_for_event(AttemptFailed, job)
    assert nursery.ends == ["child"], "what it has started in a context of its own is not the attempt's"
    assert sum(task.done() for task in nursery.tasks) == 2, "and the child's own"
    assert (await stage.wait_for_event(AttemptProgressed, job)).data.note == how, (
        "its last word is told all the same"
    )
    nursery.leave()


async def test_4_children_of_a_stopped_attempt_are_over_when_it_is_reported(stage: Stage) -> None:
    nursery = Nursery()
    await stage.enter(nursery.agent)
    job = await stage.dispatch("parent", {"how": "hangs"})
    await stage.wait_for_event(AttemptProgressed, job)
    stop = AttemptCancel(id="stop", source="test", data=AttemptCancelData(job_id=job, reason="enough"))
    await stage.bus.publish([build_message(stop)])
    await stage.wait_for_event(AttemptCancelled, job)
    assert nursery.ends == ["child"]
    nursery.leave()


async def test_4_what_a_successful_attempt_leaves_may_be_meant_to_stay(stage: Stage) -> None:
    nursery = Nursery()
    await stage.enter(nursery.agent)
    job = await stage.dispatch("parent", {"how": "succeeds"})
    await stage.wait_for_event(AttemptSucceeded, job)
    assert not nursery.ends
    nursery.leave()
