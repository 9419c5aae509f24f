"""The migrations: complete, reversible, well named, and applied once."""

import asyncio
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine.interfaces import ReflectedIndex

from warrener_store import StoreNotMigrated, migrate, open_store
from warrener_store.databases.address import parse_address
from warrener_store.migrations import NEEDED, VERSION_TABLE
from warrener_store.migrations.migrator import UnknownRevision, alembic_config, open_engine
from warrener_store.migrations.tables import METADATA


def described(connection: Connection) -> dict[str, object]:
    """The tables as the database reports them: columns, keys, checks, indexes."""
    with warnings.catch_warnings():
        # SQLAlchemy does not reflect these of SQLite; `indexed_expressions` has them.
        warnings.filterwarnings("ignore", "Skipped unsupported reflection of expression-based index")
        return _tables(connection)


def indexed_expressions(connection: Connection, table: str) -> list[str]:
    """The indexes on expressions, as SQLite stores them; PostgreSQL reports them with the others."""
    if connection.dialect.name != "sqlite":
        return []
    query = text(
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :name AND sql LIKE '%substr%'"
    )
    return sorted(" ".join(row[0].split()) for row in connection.execute(query, {"name": table}))


def _tables(connection: Connection) -> dict[str, object]:
    look = inspect(connection)
    return {
        name: {
            "columns": [
                (column["name"], str(column["type"]), column["nullable"]) for column in look.get_columns(name)
            ],
            "key": look.get_pk_constraint(name)["constrained_columns"],
            "checks": sorted((check["name"], check["sqltext"]) for check in look.get_check_constraints(name)),
            "foreign": [
                (key["referred_table"], key["constrained_columns"], str(key.get("options")))
                for key in look.get_foreign_keys(name)
            ],
            "indexes": sorted(
                (index["name"], index["column_names"], index["unique"], _options(index))
                for index in look.get_indexes(name)
            ),
            "expressions": indexed_expressions(connection, name),
        }
        for name in look.get_table_names()
        if name != VERSION_TABLE
    }


def _options(index: ReflectedIndex) -> list[str]:
    return sorted(f"{name} {value}" for name, value in index.get("dialect_options", {}).items())


async def shape(url: str) -> dict[str, object]:
    engine = open_engine(parse_address(url))
    async with engine.connect() as connection:
        found = await connection.run_sync(described)
    await engine.dispose()
    return found


async def test_the_steps_make_the_tables_of_the_metadata(empty_url: str) -> None:
    await migrate(empty_url)
    by_steps = await shape(empty_url)
    await migrate(empty_url, "base")
    engine = open_engine(parse_address(empty_url))
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
    await engine.dispose()
    assert by_steps == await shape(empty_url)
    assert set(by_steps) == set(METADATA.tables)


async def test_every_step_can_be_taken_back_and_again(empty_url: str) -> None:
    await migrate(empty_url)
    whole = await shape(empty_url)
    await migrate(empty_url, "base")
    assert await shape(empty_url) == {}
    await migrate(empty_url, NEEDED)
    assert await shape(empty_url) == whole


async def test_migrating_again_and_all_at_once_changes_nothing(empty_url: str) -> None:
    await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    await migrate(empty_url)
    store = open_store(empty_url)
    await store.start()
    await store.close()


async def test_an_unknown_revision_is_named(empty_url: str) -> None:
    with pytest.raises(UnknownRevision, match="9999"):
        await migrate(empty_url, "9999")


async def test_a_store_without_tables_names_the_command_to_run(empty_url: str) -> None:
    store = open_store(empty_url)
    with pytest.raises(StoreNotMigrated, match="warrener migrate"):
        await store.start()
    await store.close()


async def test_an_outdated_store_names_the_command_to_run(url: str) -> None:
    await set_revision(url, "0000")
    store = open_store(url)
    with pytest.raises(StoreNotMigrated, match=f"expected revision {NEEDED}.*got 0000.*warrener migrate"):
        await store.start()
    await store.close()


async def test_a_store_ahead_is_welcome_because_steps_before_new_code_are_safe(url: str) -> None:
    await set_revision(url, "9000")
    store = open_store(url)
    await store.start()
    await store.close()


async def set_revision(url: str, revision: str) -> None:
    engine = open_engine(parse_address(url))
    async with engine.begin() as connection:
        await connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))
    await engine.dispose()


def test_steps_are_named_by_number_safety_and_intent() -> None:
    steps = list(ScriptDirectory.from_config(alembic_config()).walk_revisions())
    for step in steps:
        assert re.fullmatch(rf"v{step.revision}_(pre|post)_[a-z_]+\.py", Path(step.path).name)
    assert [step.revision for step in reversed(steps)] == [f"{n:04}" for n in range(1, len(steps) + 1)]


def test_the_code_needs_a_step_that_exists_and_all_safe_ones() -> None:
    steps = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    assert max(step.revision for step in steps if "_pre_" in Path(step.path).name) == NEEDED


def test_the_command_migrates_and_reports_errors(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "warrener_store", "migrate", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert run(f"sqlite:///{tmp_path}/store.db").returncode == 0
    assert (tmp_path / "store.db").exists()
    wrong = run("mysql://here/there")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "expected a store url" in wrong.stderr
    assert "Traceback" not in wrong.stderr
