"""Fixtures of the acceptance tests: a warren of real processes on a real broker."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.warren import Warren

from warrener_store import migrate


@pytest.fixture
def warren(tmp_path: Path, vhost_url: str, request: pytest.FixtureRequest) -> Iterator[Warren]:
    """A broker of its own, an empty SQLite store and ledger, and no service yet."""
    store = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(migrate(store))
    one = Warren(tmp_path, vhost_url, store, f"sqlite:///{tmp_path}/ledger.db")
    yield one
    one.end()
    if request.session.testsfailed:
        for service in one.services:
            print(f"--- {service.name}\n{service.said()[-3000:]}")
