"""A stand-in for the services, for tests of code without an event loop."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from warrener_client.sync import LoopThread
from warrener_client.testing import StandIn
from warrener_contracts.events import Event
from warrener_runtime.bus import open_bus


def greet(given: dict[str, object]) -> str:
    if given.get("name") == "nobody":
        raise ValueError("nobody is there")
    return f"Hello, {given['name']}!"


@contextmanager
def stand_in(url: str, *, refuse: Callable[[Event[Any]], str | None] = lambda _: None) -> Generator[StandIn]:
    """A stand-in for the services, whose agent greets."""

    async def begin() -> StandIn:
        bus = open_bus(url, name="stand-in")
        return await StandIn(bus, {"hello.greet": greet}, refuse=refuse).__aenter__()

    there = LoopThread("stand-in")
    there.start()
    made = there.run(begin())
    yield made
    there.run(made.__aexit__(None, None, None))
    there.stop()
