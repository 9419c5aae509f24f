"""Databases for tests: migrated, empty, and open to raw SQL."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from warrener_store import StateStore, open_store
from warrener_store.databases.address import parse_address
from warrener_store.migrations.migrator import open_engine


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A database with the tables of this version."""
    return str(request.getfixturevalue(f"{request.param}_store_url"))


@pytest.fixture
async def store(url: str) -> AsyncGenerator[StateStore]:
    """The store in that database."""
    opened = open_store(url)
    await opened.start()
    yield opened
    await opened.close()


@pytest.fixture
async def engine(url: str) -> AsyncGenerator[AsyncEngine]:
    """An engine that bypasses the store."""
    made = open_engine(parse_address(url))
    yield made
    await made.dispose()
