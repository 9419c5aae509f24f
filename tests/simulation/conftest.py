"""Simulations are quiet: thousands of faults would be logged, each with its traceback."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest
from structlog.testing import capture_logs

from warrener_runtime.simulation_loop import SimulationLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Simulations have neither sockets nor threads: their loop does not ask for them in every turn."""
    return {"simulation": SimulationLoop}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Logs are gathered, not printed."""
    with capture_logs():
        yield
