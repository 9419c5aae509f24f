"""Start, drain, stop: what each component promises, also when called in the wrong order or all at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from warrener_runtime import lifecycle
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.health import HealthServer, Readiness
from warrener_runtime.virtual_clock import VirtualClock

ROUNDS = 10
CALLS = 50


class Kettle(lifecycle.ManagedComponent):
    """A component that writes down what happens to it, and that a test can hold back or break."""

    def __init__(self, name: str, diary: list[str] | None = None) -> None:
        super().__init__(name)
        self.diary = [] if diary is None else diary
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken: set[str] = set()
        self.draining = asyncio.Event()

    async def _on_start(self) -> None:
        await self._record_call("start")

    async def _on_drain(self) -> None:
        self.draining.set()
        await self._record_call("drain")

    async def _on_stop(self) -> None:
        self.diary.append(f"stop {self.name}")
        if "stop" in self.broken:
            raise OSError(f"{self.name} is stuck")

    async def _record_call(self, what: str) -> None:
        await self.gate.wait()
        if what in self.broken:
            raise OSError(f"{self.name} cannot {what}")
        self.diary.append(f"{what} {self.name}")


@pytest.fixture
async def kettle() -> Kettle:
    return Kettle("k")


async def nothing() -> None:
    """Work that is done at once."""


async def after(turns: int, call: Callable[[], Awaitable[None]]) -> None:
    """Let others have some turns first, so that the calls meet at every point of each other."""
    for _ in range(turns):
        await asyncio.sleep(0)  # a turn of the loop, no time
    await call()


async def ignore(subscription: Subscription, batch: list[Delivery]) -> None:
    """Settles nothing."""


def a_consumer() -> lifecycle.Component:
    bus = MemoryBus(MemoryBroker())
    return lifecycle.Group(
        lifecycle.Resource("bus", bus.start, nothing),
        lifecycle.Consumer("consumer", bus, "nowhere", 10, ignore),
    )


def a_health_server() -> lifecycle.Component:
    server = HealthServer("test", Readiness(dict), host="127.0.0.1", port=0)
    return lifecycle.Resource("health", server.open, server.close)


KINDS: dict[str, Callable[[], lifecycle.Component]] = {
    "a loop": lambda: lifecycle.Loop("loop", nothing, every=None),
    "a periodic loop": lambda: lifecycle.Loop("loop", nothing, every=60),
    "a consumer": a_consumer,
    "a group": lambda: lifecycle.Group(
        Kettle("a"), lifecycle.Group(Kettle("b"), lifecycle.Loop("loop", nothing, every=0.001)), Kettle("c")
    ),
    "a resource": lambda: lifecycle.Resource("store", nothing, nothing),
    "a health server": a_health_server,
}


@pytest.mark.parametrize("kind", KINDS)
async def test_500_calls_in_any_order_leave_it_as_it_was(kind: str) -> None:
    """10 rounds of 50 concurrent calls; after each round it stops, leaves no task behind, and works again."""
    component = KINDS[kind]()
    chance = random.Random(kind)
    for _ in range(ROUNDS):
        calls = [
            after(chance.randrange(20), chance.choice([component.start, component.drain, component.stop]))
            for _ in range(CALLS)
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(result) for result in results} <= {type(None), lifecycle.StoppedWhileStarting}
        await component.stop()
        await component.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await component.start()
        await component.drain()
        await component.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("kind", KINDS)
async def test_starts_that_are_cancelled_leave_nothing_behind(kind: str) -> None:
    component = KINDS[kind]()
    for turns in range(CALLS):
        starting = asyncio.create_task(component.start())
        for _ in range(turns % 7):
            await asyncio.sleep(0)  # a turn of the loop, no time
        starting.cancel()
        await asyncio.wait({starting})
        await component.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_it_starts_and_stops_once_and_can_start_again(kettle: Kettle) -> None:
    await kettle.stop()
    await kettle.drain()
    assert kettle.diary == []
    await asyncio.gather(kettle.start(), kettle.start())
    await kettle.start()
    assert kettle.started
    await asyncio.gather(kettle.stop(), kettle.stop())
    await kettle.stop()
    assert not kettle.started
    await kettle.start()
    assert kettle.diary == ["start k", "stop k", "start k"]


async def test_a_stop_during_a_start_ends_it_and_the_starter_gets_an_error(kettle: Kettle) -> None:
    kettle.gate.clear()
    starting = asyncio.create_task(kettle.start())
    await asyncio.sleep(0)  # one turn: the start waits at its gate
    await kettle.stop()
    with pytest.raises(lifecycle.StoppedWhileStarting, match="k was stopped before it had started"):
        await starting
    assert kettle.diary == ["stop k"]


async def test_a_start_that_fails_lets_go_and_may_be_tried_again(kettle: Kettle) -> None:
    kettle.broken = {"start"}
    with pytest.raises(OSError, match="k cannot start"):
        await kettle.start()
    assert kettle.diary == ["stop k"]
    kettle.broken = set()
    await kettle.start()
    assert kettle.started


async def test_a_failed_start_raises_even_if_stopping_fails_too(kettle: Kettle) -> None:
    kettle.broken = {"start", "stop"}
    with capture_logs() as records, pytest.raises(OSError, match="k cannot start"):
        await kettle.start()
    assert [record["action"] for record in records] == ["lifecycle.stop_failed"]


async def test_a_stop_hurries_a_drain(kettle: Kettle) -> None:
    await kettle.start()
    kettle.gate.clear()
    draining = asyncio.create_task(kettle.drain())
    await kettle.draining.wait()
    await kettle.stop()
    await draining
    assert kettle.diary == ["start k", "stop k"]


async def test_a_group_starts_in_order_and_drains_and_stops_in_reverse() -> None:
    diary: list[str] = []
    group = lifecycle.Group(Kettle("a", diary), Kettle("b", diary))
    await group.start()
    await group.drain()
    await group.stop()
    assert diary == ["start a", "start b", "drain b", "drain a", "stop b", "stop a"]


async def test_a_group_that_cannot_start_stops_what_had_started() -> None:
    diary: list[str] = []
    broken = Kettle("b", diary)
    broken.broken = {"start"}
    with pytest.raises(OSError, match="b cannot start"):
        await lifecycle.Group(Kettle("a", diary), broken, Kettle("c", diary)).start()
    assert diary == ["start a", "stop b", "stop a"]


async def test_one_that_does_not_stop_does_not_keep_the_others_from_it() -> None:
    diary: list[str] = []
    kettles = [Kettle(name, diary) for name in "abc"]
    kettles[0].broken = kettles[2].broken = {"stop"}
    group = lifecycle.Group(*kettles)
    await group.start()
    with pytest.raises(ExceptionGroup, match="2 components of group did not stop"):
        await group.stop()
    assert diary[3:] == ["stop c", "stop b", "stop a"]


async def test_a_loop_turns_from_start_to_start_and_never_catches_up() -> None:
    clock, turns = VirtualClock(), list[float]()

    async def body() -> None:
        turns.append(clock.monotonic())
        await clock.sleep(3 if len(turns) == 1 else 25 if len(turns) == 2 else 0)

    loop = lifecycle.Loop("loop", body, every=10, clock=clock)
    await loop.start()
    await clock.advance(55)
    assert turns == [0, 10, 35, 45, 55]
    await loop.stop()


async def test_a_loop_logs_an_error_backs_off_and_goes_on() -> None:
    clock, turns = VirtualClock(), list[float]()

    async def body() -> None:
        turns.append(clock.monotonic())
        if len(turns) == 2:
            raise asyncio.CancelledError  # as a driver does whose connection breaks; nobody cancelled us
        if len(turns) < 5:
            raise OSError("the store is away")

    loop = lifecycle.Loop("loop", body, every=1, clock=clock)
    with capture_logs() as records:
        await loop.start()
        await clock.advance(2.6)
    assert turns == pytest.approx([0, 0.1, 0.3, 0.7, 1.5, 2.5])  # pyright: ignore[reportUnknownMemberType] - untyped
    logged = [(record["action"], record["failures"]) for record in records]
    assert logged == [("loop.iteration_failed", 1), ("loop.iteration_failed", 2), ("loop.recovered", 4)], (
        "each kind once"
    )
    await loop.stop()


async def test_draining_a_loop_lets_the_turn_end_and_does_not_wait_for_the_next() -> None:
    entered, gate, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def body() -> None:
        entered.set()
        await gate.wait()
        ended.append("turn")

    loop = lifecycle.Loop("loop", body, every=3600)
    await loop.start()
    await entered.wait()
    draining = asyncio.create_task(loop.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    gate.set()
    await draining
    assert ended == ["turn"]
    await loop.stop()


async def test_draining_a_loop_that_rests_ends_it_at_once() -> None:
    clock = VirtualClock()
    loop = lifecycle.Loop("loop", nothing, every=3600, clock=clock)
    await loop.start()
    await clock.settle()
    await loop.drain()
    await clock.settle()
    assert clock.sleeping == 0
    await loop.stop()


async def test_a_resource_is_shut_once_for_each_time_it_was_opened() -> None:
    calls: list[str] = []

    async def open_() -> None:
        calls.append("open")
        raise OSError("no")

    async def shut() -> None:
        calls.append("shut")

    resource = lifecycle.Resource("store", open_, shut)
    with pytest.raises(OSError, match="no"):
        await resource.start()
    await resource.stop()
    assert calls == ["open", "shut"]
