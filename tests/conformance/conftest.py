"""The implementations that the suites run on."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from warrener_store import StateStore, migrate, open_store
from warrener_store.memory import MemoryStore


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[StateStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    sqlite = f"sqlite:///{tmp_path}/store.db"
    url = sqlite if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    await migrate(url)
    opened = open_store(url)
    await opened.start()
    yield opened
    await opened.close()
