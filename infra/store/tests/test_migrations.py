"""The migrations: whole or not at all, well named, applied once, and never edited once they are released.

Services, commands and `migrate` name tables that carry a revision and have another shape."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from infra.store.tests.raw_sql import RULE_BROKEN, connect_sqlite, dialect_of, run_sql
from tests.store_access import opened_store
from tests.store_rows import died, running_job

from warrener_store import StateStore, StoreNotMigrated, StoreRefused, migrate, migrations
from warrener_store.migrations import HISTORY, NEEDED, VERSION_TABLE, read_steps
from warrener_store.migrations.migrator import UnknownRevision
from warrener_store.statements import statement


async def revision(url: str) -> list[str]:
    return [row[0] for row in await run_sql(url, f"SELECT version_num FROM {VERSION_TABLE}")]


async def test_migrating_again_and_all_at_once_changes_nothing(empty_url: str) -> None:
    await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    await migrate(empty_url)
    await start(empty_url)


async def test_an_outdated_store_names_the_command_to_run_and_one_ahead_is_welcome(url: str) -> None:
    await set_revision(url, "0000")
    with pytest.raises(StoreNotMigrated, match=f"expected revision {NEEDED}.*got 0000.*warrener migrate"):
        await start(url)
    await set_revision(url, "9000")  # steps before new code are safe
    await start(url)
    await migrate(url)
    assert await revision(url) == ["9000"]


async def set_revision(url: str, revision: str) -> None:
    await run_sql(url, f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")


async def start(url: str) -> None:
    async with opened_store(url):
        pass


@pytest.mark.parametrize("to", ["9999", "base"])
async def test_an_unknown_revision_is_named_and_changes_nothing(empty_url: str, to: str) -> None:
    with pytest.raises(UnknownRevision, match=f'expected "head" or 0001.*got {to}'):
        await migrate(empty_url, to)
    with pytest.raises(StoreNotMigrated, match="warrener migrate"):
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
    row = running_job()
    async with opened_store(sqlite_store_url) as store:
        await store.insert_jobs([row])
        await store.save_jobs([died(row)])
    script = """
        CREATE TABLE warrener_other AS SELECT * FROM warrener_jobs;
        DROP TABLE warrener_jobs;
        ALTER TABLE warrener_other RENAME TO warrener_jobs;
    """
    (later_steps / f"{LAST}_pre_other.sqlite.sql").write_text(script, "utf-8")
    await migrate(sqlite_store_url, LAST)
    assert len(await run_sql(sqlite_store_url, "SELECT job_id FROM warrener_attempts")) == 1


OLD_JOB = """
INSERT INTO warrener_jobs (
  job_id, job_type, queue, arguments, guarantee, policy, source, requested_at, accepted_at, request_hash,
  version, state, attempt, failures, losses, watchers, wake_at, updated_at)
VALUES ('{}', 'flights.load', 'q', '{{}}', 'idempotent', '{{}}', 'test', '2026-11-20', '2026-11-20', '', 1,
  'queued', 1, 0, 0, '[]', '2026-11-20', '2026-11-20')
"""
"""As the code of revision 0001 inserts a job, but with literals."""
TWO_JOBS = [OLD_JOB.format(UUID(int=number)) for number in (1, 2)]
SUSPEND = "UPDATE warrener_jobs SET state = 'suspended'"


async def test_jobs_of_the_first_release_stay_as_they_are_and_may_be_suspended(empty_url: str) -> None:
    await migrate(empty_url, "0001")
    await run_sql(empty_url, TWO_JOBS[0])
    attempt = f"VALUES ('{UUID(int=1)}', 1, 'lost', 'a1', NULL, NULL, '2026-11-20', NULL, 'lost')"
    await run_sql(empty_url, f"INSERT INTO warrener_attempts {attempt}")
    await run_sql(empty_url, "INSERT INTO warrener_job_counts VALUES ('flights.load', 'q', 'queued', 0, 1)")
    with pytest.raises(RULE_BROKEN, match="state_known"):
        await run_sql(empty_url, SUSPEND)
    [before] = await run_sql(empty_url, "SELECT * FROM warrener_jobs")
    await migrate(empty_url)
    assert await run_sql(empty_url, "SELECT * FROM warrener_jobs") == [
        (*before, 0, 0, None, None, None, None, 0, None, None)
    ]
    await run_sql(empty_url, TWO_JOBS[1])  # the code before goes on
    await run_sql(empty_url, SUSPEND)
    await run_sql(empty_url, "UPDATE warrener_job_counts SET state = 'suspended'")
    for table in ("jobs", "job_counts"):
        with pytest.raises(RULE_BROKEN, match="state_known"):
            await run_sql(empty_url, f"UPDATE warrener_{table} SET state = 'flying'")
    assert len(await run_sql(empty_url, "SELECT job_id FROM warrener_attempts")) == 1
    if dialect_of(empty_url) == "sqlite":
        assert await run_sql(empty_url, "PRAGMA integrity_check") == [("ok",)]
        assert await run_sql(empty_url, "PRAGMA foreign_key_check") == []


async def test_an_open_connection_to_a_file_reads_the_new_rules(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    await migrate(url, "0001")
    with closing(connect_sqlite(tmp_path / "store.db")) as connection:
        connection.execute(TWO_JOBS[0])
        await migrate(url)
        assert connection.execute(SUSPEND).rowcount == 1


async def test_a_file_with_other_rules_than_those_that_were_released_stays_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    await migrate(url, "0001")
    await run_sql(url, "ALTER TABLE warrener_job_counts RENAME TO warrener_old")
    await run_sql(url, "CREATE TABLE warrener_job_counts AS SELECT * FROM warrener_old")
    with pytest.raises(StoreRefused, match="both_tables_know_suspended_jobs"):
        await migrate(url)
    assert await revision(url) == ["0001"]
    await run_sql(url, TWO_JOBS[0])
    with pytest.raises(RULE_BROKEN, match="state_known"):
        await run_sql(url, SUSPEND)


def test_steps_are_named_by_number_safety_and_intent() -> None:
    names = [step.name for step in HISTORY.iterdir() if step.name.endswith(".sql")]
    for name in names:
        assert re.fullmatch(r"\d{4}_(pre|post)_[a-z_]+(\.(postgres|sqlite))?\.sql", name)
    for dialect in ("postgres", "sqlite"):
        steps = read_steps(dialect)
        assert list(steps) == [f"{number:04}" for number in range(1, len(steps) + 1)]
        assert len(steps) == len({name[:4] for name in names})
    assert {path.name[:4] for path in SCHEMAS.iterdir()} == set(STEPS), "each schema on file has its step"


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


SCHEMAS = Path(str(HISTORY)) / "schemas"
STEPS = list(read_steps("sqlite"))
FREEZE = "WARRENER_TEST_FREEZE"
"""Set: the schema of a step that has none on file is written. One that is there is never written again."""

RULES_AND_INDEXES = {
    "postgres": """
        SELECT 'rule ' || conrelid::regclass || '.' || conname || ' ' || pg_get_constraintdef(oid)
        FROM pg_constraint
        WHERE contype IN ('c', 'f', 'p', 'u') AND conrelid::regclass::text LIKE 'warrener%'
        UNION ALL
        SELECT 'index ' || tablename || '.' || indexname || ' ' || replace(indexdef, ' ON public.', ' ON ')
        FROM pg_indexes WHERE tablename LIKE 'warrener%'
    """,
    "sqlite": """
        SELECT 'index ' || tbl_name || '.' || name || ' ' || sql FROM sqlite_master
        WHERE type = 'index' AND sql <> ''
    """,
}


async def schema(url: str) -> str:
    """The tables as the database reports them: a line for each column, rule and index."""
    dialect = dialect_of(url)
    lines = [" ".join(("column", *row)) for row in await run_sql(url, statement(dialect, "schema_columns"))]
    lines += [row[0] for row in await run_sql(url, RULES_AND_INDEXES[dialect])]
    ours = (" ".join(line.split()) for line in lines if f" {VERSION_TABLE}." not in line)
    return "".join(f"{line}\n" for line in sorted(ours))


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_leaves_the_schema_behind_with_which_it_was_released(empty_url: str, step: str) -> None:
    on_file = SCHEMAS / f"{step}.{dialect_of(empty_url)}.txt"
    await migrate(empty_url, step)
    left = await schema(empty_url)
    if FREEZE in os.environ and not on_file.exists():
        on_file.write_text(left, "utf-8")
    assert on_file.exists(), f"{on_file.name} is missing: write it with {FREEZE}=1, once the step is complete"
    assert left == on_file.read_text("utf-8"), f"step {step} is released: undo the edit, and add a step"


async def refusal(url: str) -> str:
    with pytest.raises(StoreNotMigrated) as refused:
        await start(url)
    return str(refused.value)


async def test_tables_of_an_older_commit_with_the_same_revision_are_not_called_up_to_date(url: str) -> None:
    await run_sql(url, "ALTER TABLE warrener_job_types DROP COLUMN arguments_schema")
    sentence = await refusal(url)
    assert f"expected the columns of revision {NEEDED}" in sentence
    assert "no warrener_job_types.arguments_schema (text" in sentence
    with pytest.raises(StoreNotMigrated, match=r"no warrener_job_types\.arguments_schema"):
        await migrate(url)


async def test_a_column_of_another_type_is_named_with_both(postgres_store_url: str) -> None:
    await run_sql(postgres_store_url, "ALTER TABLE warrener_agents ALTER COLUMN slots TYPE smallint")
    assert "warrener_agents.slots as 'smallint not null', not 'integer not null'" in await refusal(
        postgres_store_url
    )


async def test_a_foreign_column_is_named_only_if_it_would_refuse_rows(url: str) -> None:
    await run_sql(url, "ALTER TABLE warrener_agents ADD COLUMN their_note text")
    await run_sql(url, "ALTER TABLE warrener_agents ADD COLUMN their_default text NOT NULL DEFAULT 'x'")
    await start(url)
    if dialect_of(url) == "postgres":
        await run_sql(url, "ALTER TABLE warrener_agents ADD COLUMN mandatory text NOT NULL")
        assert "an unknown warrener_agents.mandatory (text not null)" in await refusal(url)
