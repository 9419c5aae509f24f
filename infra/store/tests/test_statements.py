"""Statements of both databases have one text; SQLite's follows from PostgreSQL's words."""

from importlib.resources import files

import pytest

from warrener_store.statements import FOLDERS, positional, statement


def names_of(file: str) -> list[str]:
    """The names of the statements in all files of this name."""
    package = files("warrener_store")
    sources = (folder / file for folder in (package, *(package / name for name in FOLDERS)))
    lines = (line for source in sources if source.is_file() for line in source.read_text().splitlines())
    return [line.removeprefix("-- name: ") for line in lines if line.startswith("-- name: ")]


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_every_statement_is_complete(dialect: str) -> None:
    for name in (*names_of("statements.sql"), *names_of(f"{dialect}.sql")):
        text = statement(dialect, name)
        assert "{" not in text.replace('"rule":{"kind"', ""), text


def test_a_statement_for_both_databases_stands_in_no_file_of_one() -> None:
    shared = set(names_of("statements.sql"))
    assert not shared & {*names_of("postgres.sql"), *names_of("sqlite.sql")}


def test_an_array_of_postgresql_is_a_json_text_of_sqlite() -> None:
    assert "parent_id = ANY($1::uuid[])" in statement("postgres", "children_of")
    assert "parent_id IN (SELECT value FROM json_each($1))" in statement("sqlite", "children_of")


def test_a_batch_is_arrays_in_postgresql_and_one_row_in_sqlite() -> None:
    arrays = "FROM unnest($1::text[], $2::text[]) AS batch (exchange, key)"
    assert arrays in statement("postgres", "note_bound")
    assert "FROM (SELECT $1 AS exchange, $2 AS key) AS batch" in statement("sqlite", "note_bound")


def test_an_unknown_statement_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        statement("sqlite", "nothing")


def test_parameters_stand_in_the_order_of_their_use() -> None:
    prepared = positional("SELECT $2, ?1, $2")
    assert prepared.text == "SELECT ?, ?, ?"
    assert prepared.arrange(("a", "b")) == ("b", "a", "b")
