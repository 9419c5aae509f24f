"""An agent whose loop stood still for longer than its leases: nothing of a handler goes on that may run
elsewhere by now. The loop is stopped as a freeze does it, by the test, which shares it."""

import asyncio
import threading
import time

import pytest
from services.agent.tests.stage import Stage

from warrener_agent import Agent, JobContext
from warrener_contracts.events import AttemptFailed, AttemptReleased

LEASE = 1.0


class Walker:
    """Handlers that note each of their steps."""

    def __init__(self) -> None:
        self.agent = Agent()
        self.steps: list[float] = []
        self.walking = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.refused: list[BaseException] = []
        self.over = threading.Event()

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
    await stage.enter(walker.agent, agent_lease=LEASE)
    job = await stage.dispatch(how)
    await walker.walking.wait()
    time.sleep(1.5 * LEASE)  # noqa: ASYNC251 - the whole loop is to stand still
    thawed = time.monotonic()
    released = await stage.wait_for_event(AttemptReleased, job)
    assert "lease" in released.data.reason
    assert [step for step in walker.steps if step > thawed] == []
    assert not stage.of(AttemptFailed), "it is not charged"


async def test_g3_an_attempt_whose_lease_ends_before_its_first_step_is_given_back(stage: Stage) -> None:
    agent, begun = Agent(), list[int]()

    @agent.job("block")
    async def block(number: int) -> None:
        begun.append(number)
        time.sleep(1.5 * LEASE)  # noqa: ASYNC251 - a mistaken handler: the one beside it cannot begin

    await stage.enter(agent, agent_lease=LEASE)
    both = [stage.dispatched("block", {"number": number}) for number in (1, 2)]
    await stage.dispatch_together(*both)
    released = await stage.wait_for_event(AttemptReleased)
    assert "lease" in released.data.reason
    assert len(begun) == 1, "the other one was to begin after its lease had ended"
    assert released.data.job_id == both[2 - begun[0]].data.job_id
    assert not stage.of(AttemptFailed), "it is not charged"


async def test_a_coroutine_whose_lease_holds_goes_on_after_a_short_stop(stage: Stage) -> None:
    walker = Walker()
    await stage.enter(walker.agent, agent_lease=20.0)
    await stage.dispatch("walk")
    await walker.walking.wait()
    time.sleep(0.5)  # noqa: ASYNC251 - the whole loop is to stand still
    before = len(walker.steps)
    await stage.until(lambda: len(walker.steps) > before + 3, "it to walk on")


async def test_g3_a_thread_is_refused_at_its_context_after_its_lease_has_ended(stage: Stage) -> None:
    walker = Walker()
    await stage.enter(walker.agent, agent_lease=LEASE)
    job = await stage.dispatch("march")
    await walker.walking.wait()
    assert walker.over.wait(20), "the loop stands still meanwhile, so nobody else can have stopped it"
    assert "lease has ended" in str(walker.refused[0])
    await stage.wait_for_event(AttemptReleased, job)
    assert not stage.of(AttemptFailed)
