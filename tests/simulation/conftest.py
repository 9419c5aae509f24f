"""Simulations are quiet: thousands of faults would be logged, each with its traceback."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from warrener_agent.workflows import maps
from warrener_supervisor import workflow_pages

_HANGS = 900
"""Seconds. A simulation computes without a pause, and beside other tests has a share of a processor alone."""


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Give simulations more time than tests that wait."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(_HANGS))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Logs are gathered, not printed."""
    with capture_logs():
        yield


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map of 20 has five batches."""
    monkeypatch.setattr(maps, "MAX_MEMBERS", 4)
    monkeypatch.setattr(workflow_pages, "MAX_MEMBERS", 4)
