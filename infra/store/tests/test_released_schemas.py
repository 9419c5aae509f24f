"""A released step of the migrations is never edited: the schema that it leaves behind is on file.

Services, commands and `migrate` name tables that carry a revision and have another shape.
"""

import os
from pathlib import Path

import pytest
from infra.store.tests.raw_sql import dialect_of, run_sql

import warrener_store.migrations
from warrener_store import StoreNotMigrated, migrate, open_store
from warrener_store.migrations import NEEDED, VERSION_TABLE, read_steps
from warrener_store.statements import statement

HISTORY = Path(warrener_store.migrations.__file__).parent
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
    on_file = HISTORY / "schemas" / f"{step}.{dialect_of(empty_url)}.txt"
    await migrate(empty_url, step)
    left = await schema(empty_url)
    if FREEZE in os.environ and not on_file.exists():
        on_file.write_text(left, "utf-8")
    assert on_file.exists(), f"{on_file.name} is missing: write it with {FREEZE}=1, once the step is complete"
    assert left == on_file.read_text("utf-8"), f"step {step} is released: undo the edit, and add a step"


def test_no_schema_is_on_file_without_its_step() -> None:
    assert {path.name[:4] for path in (HISTORY / "schemas").iterdir()} == set(STEPS)


async def refusal(url: str) -> str:
    store = open_store(url)
    with pytest.raises(StoreNotMigrated) as refused:
        await store.start()
    await store.close()
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
    store = open_store(url)
    await store.start()
    await store.close()
    if dialect_of(url) == "postgres":
        await run_sql(url, "ALTER TABLE warrener_agents ADD COLUMN mandatory text NOT NULL")
        assert "an unknown warrener_agents.mandatory (text not null)" in await refusal(url)
