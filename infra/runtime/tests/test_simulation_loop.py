"""The loop of simulations does what asyncio's does, in the same order, and knows when no task is ready."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from warrener_runtime.virtual_clock import SimulationLoop, VirtualClock

T = TypeVar("T")


def simulate(story: Callable[[SimulationLoop], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=SimulationLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SimulationLoop)
        return runner.run(story(loop))


async def busy_hour(seed: int) -> list[tuple[float, str]]:
    """Tasks that sleep, hand over to others, wait for each other and are cancelled; in what order."""
    clock, dice, seen = VirtualClock(), random.Random(seed), list[tuple[float, str]]()
    lock = asyncio.Lock()

    async def live(name: str) -> None:
        while True:
            await clock.sleep(dice.choice((0, 0.5, 1, 1, 7)))
            seen.append((clock.monotonic(), name))
            async with lock:
                await asyncio.sleep(0)
                seen.append((clock.monotonic(), f"{name} has the lock"))
            if dice.random() < 0.02:
                tasks.append(asyncio.create_task(live(f"{name}+")))
                dice.choice(tasks).cancel()

    tasks = [asyncio.create_task(live(name)) for name in "abc"]
    await clock.advance(600)
    await clock.leap(100)
    await clock.run_until(lambda: len(seen) > 1000 or clock.monotonic() > 3000, within=3600)
    for task in tasks:
        task.cancel()
    await clock.settle()
    assert all(task.done() for task in tasks)
    return seen


@pytest.mark.parametrize("seed", range(10))
def test_everything_happens_in_the_order_of_asyncio(seed: int) -> None:
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        expected = runner.run(busy_hour(seed))
    assert simulate(lambda _: busy_hour(seed)) == expected
    assert len(expected) > 100


def test_threads_and_real_timers_are_served_while_tasks_are_ready() -> None:
    async def story(loop: SimulationLoop) -> None:
        async def never_rest() -> None:
            while True:  # noqa: ASYNC110 - that is the point
                await asyncio.sleep(0)

        restless = asyncio.create_task(never_rest())
        assert await asyncio.to_thread(lambda: 7) == 7
        timer = loop.create_future()
        loop.call_later(0.001, timer.set_result, "rang")
        assert await timer == "rang"
        restless.cancel()

    simulate(story)


def test_what_proceed_raises_is_raised_and_the_loop_goes_on() -> None:
    async def story(loop: SimulationLoop) -> None:
        def stumble() -> bool:
            raise LookupError("nothing there")

        with pytest.raises(LookupError, match="nothing there"):
            await loop.run_while(stumble)
        left = [1, 2, 3]
        await loop.run_while(lambda: bool(left) and left.pop() > 0)  # though it makes no task ready
        assert left == []

    simulate(story)


def test_one_task_runs_a_simulation_until_it_is_cancelled() -> None:
    async def story(loop: SimulationLoop) -> None:
        clock = VirtualClock()

        async def walk() -> None:
            while True:
                await clock.sleep(1)

        walking = asyncio.create_task(walk())
        first = asyncio.create_task(clock.advance(1e9))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="got a second"):
            await clock.advance(1)
        first.cancel()
        await asyncio.wait({first})
        assert first.cancelled()
        before = clock.monotonic()
        await clock.advance(5)
        assert clock.monotonic() == before + 5
        walking.cancel()

    simulate(story)


def test_an_error_in_a_callback_goes_to_the_handler_of_the_loop() -> None:
    async def story(loop: SimulationLoop) -> None:
        handled: list[str] = []
        loop.set_exception_handler(lambda _, context: handled.append(repr(context.get("exception"))))

        def stumble() -> None:
            raise LookupError("nothing there")

        loop.call_soon(stumble)
        loop.call_soon(handled.append, "cancelled").cancel()
        await asyncio.sleep(0)
        assert handled == ["LookupError('nothing there')"]

    simulate(story)
