"""Databases for tests: migrated, and empty."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.store_access import opened_store

from warrener_store import Store


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_store_url"))


@pytest.fixture
async def store(url: str) -> AsyncGenerator[Store]:
    async with opened_store(url) as opened:
        yield opened
