"""The migrations: whole or not at all, well named, and applied once."""

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from infra.store.tests.raw_sql import dialect_of, run_sql
from tests.store_rows import died, running_job

from warrener_store import StateStore, StoreNotMigrated, StoreRefused, migrate, migrations, open_store
from warrener_store.migrations import HISTORY, NEEDED, VERSION_TABLE, read_steps
from warrener_store.migrations.migrator import UnknownRevision


async def revision(url: str) -> list[str]:
    return [row[0] for row in await run_sql(url, f"SELECT version_num FROM {VERSION_TABLE}")]


async def test_migrating_again_and_all_at_once_changes_nothing(empty_url: str) -> None:
    await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    await migrate(empty_url)
    await start(empty_url)


async def test_a_store_without_tables_names_the_command_to_run(empty_url: str) -> None:
    with pytest.raises(StoreNotMigrated, match="warrener migrate"):
        await start(empty_url)


async def test_an_outdated_store_names_the_command_to_run(url: str) -> None:
    await set_revision(url, "0000")
    with pytest.raises(StoreNotMigrated, match=f"expected revision {NEEDED}.*got 0000.*warrener migrate"):
        await start(url)


async def test_a_store_ahead_is_welcome_because_steps_before_new_code_are_safe(url: str) -> None:
    await set_revision(url, "9000")
    await start(url)
    await migrate(url)
    assert await revision(url) == ["9000"]


async def set_revision(url: str, revision: str) -> None:
    await run_sql(url, f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")


async def start(url: str) -> None:
    store = open_store(url)
    try:
        await store.start()
    finally:
        await store.close()


@pytest.mark.parametrize("to", ["9999", "base"])
async def test_an_unknown_revision_is_named_and_changes_nothing(empty_url: str, to: str) -> None:
    with pytest.raises(UnknownRevision, match=f'expected "head" or 0001.*got {to}'):
        await migrate(empty_url, to)
    with pytest.raises(StoreNotMigrated):
        await start(empty_url)


async def test_tables_that_alembic_made_are_taken_over_as_they_are(store: StateStore, url: str) -> None:
    """Services of this release and of the one before read the revision from the table that Alembic made."""
    row = running_job()
    await store.insert_jobs([row])
    await run_sql(url, f"DROP TABLE {VERSION_TABLE}")
    key = f"CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num)"
    await run_sql(url, f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL, {key})")
    await run_sql(url, f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('0001')")
    await migrate(url, "0001")
    assert await revision(url) == ["0001"]
    assert await store.jobs_by_id([row.job_id]) == {row.job_id: row}


@pytest.fixture
def later_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The history of a later release: a copy to which a test adds steps."""
    history = tmp_path / "history"
    history.mkdir()
    for step in Path(str(HISTORY)).glob("*.sql"):
        shutil.copy(step, history)
    monkeypatch.setattr(migrations, "HISTORY", history)
    return history


GOOD = "-- Moods; of rabbits.\nCREATE TABLE warrener_moods (\n    since {moment} NOT NULL\n);\n"
LAST = f"{int(max(read_steps('sqlite'))) + 1:04}"
PAST = f"{int(LAST) + 1:04}"


async def test_a_later_step_is_a_file_of_sql(url: str, later_steps: Path) -> None:
    (later_steps / f"{LAST}_pre_moods.sql").write_text(GOOD, "utf-8")
    (later_steps / f"{PAST}_post_calm.sql").write_text("DROP TABLE warrener_moods", "utf-8")
    await migrate(url, LAST)
    assert await revision(url) == [LAST]
    assert await run_sql(url, "SELECT since FROM warrener_moods") == []
    await migrate(url)
    assert await revision(url) == [PAST]
    with pytest.raises(UnknownRevision, match=f'expected "head", got {LAST}.*not taken back'):
        await migrate(url, LAST)


async def test_where_databases_differ_a_step_is_a_file_for_each(url: str, later_steps: Path) -> None:
    for dialect in ("postgres", "sqlite"):
        script = f"INSERT INTO warrener_duties VALUES ('{dialect}', 'a', '2026-11-20');"
        (later_steps / f"{LAST}_pre_duty.{dialect}.sql").write_text(script, "utf-8")
    await migrate(url)
    assert await run_sql(url, "SELECT duty FROM warrener_duties") == [(dialect_of(url),)]


async def test_steps_are_taken_whole_or_not_at_all(url: str, later_steps: Path) -> None:
    before = await revision(url)
    (later_steps / f"{LAST}_pre_moods.sql").write_text(GOOD, "utf-8")
    wrong = later_steps / f"{PAST}_pre_wrong.sql"
    wrong.write_text("DROP TABLE warrener_duties;\nDROP TABLE warrener_burrows;\n", "utf-8")
    with pytest.raises((StoreNotMigrated, StoreRefused)):
        await migrate(url)
    assert await revision(url) == before
    assert await run_sql(url, "SELECT duty FROM warrener_duties") == []
    wrong.unlink()
    await migrate(url)  # nothing of the failed try is in the way
    assert await revision(url) == [LAST]


async def test_sqlite_can_replace_a_table_that_others_refer_to(
    sqlite_store_url: str, later_steps: Path
) -> None:
    """ALTER TABLE changes no rule there."""
    store = open_store(sqlite_store_url)
    await store.start()
    row = running_job()
    await store.insert_jobs([row])
    await store.save_jobs([died(row)])
    await store.close()
    script = """
        CREATE TABLE warrener_other AS SELECT * FROM warrener_jobs;
        DROP TABLE warrener_jobs;
        ALTER TABLE warrener_other RENAME TO warrener_jobs;
    """
    (later_steps / f"{LAST}_pre_other.sqlite.sql").write_text(script, "utf-8")
    await migrate(sqlite_store_url, LAST)
    assert len(await run_sql(sqlite_store_url, "SELECT job_id FROM warrener_attempts")) == 1


def test_steps_are_named_by_number_safety_and_intent() -> None:
    names = [step.name for step in HISTORY.iterdir() if step.name.endswith(".sql")]
    for name in names:
        assert re.fullmatch(r"\d{4}_(pre|post)_[a-z_]+(\.(postgres|sqlite))?\.sql", name)
    for dialect in ("postgres", "sqlite"):
        steps = read_steps(dialect)
        assert list(steps) == [f"{number:04}" for number in range(1, len(steps) + 1)]
        assert len(steps) == len({name[:4] for name in names})


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
