"""Simulations are quiet: thousands of faults would be logged, each with its traceback."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Logs are gathered, not printed."""
    with capture_logs():
        yield
