"""Fixtures of the supervisor's tests."""

import pytest
from services.supervisor.tests.event_factory import MakeRow, make


@pytest.fixture
def make_row() -> MakeRow:
    """Makes rows that the store would take."""
    return make
