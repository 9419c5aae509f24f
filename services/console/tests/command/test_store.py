"""`warrener migrate` and the store's folder."""

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from warrener_runtime.secrets import mask

Run = Callable[..., Result]


def test_migrate_may_be_repeated(run: Run, empty_store_url: str) -> None:
    where = ("--store", empty_store_url)
    before = run("jobs", *where)
    assert before.exit_code == 3
    assert before.stderr.count("run `warrener migrate`") == 1
    for _ in range(2):
        result = run("migrate", *where, "--json")
        assert json.loads(result.stdout) == {"migrated": mask(empty_store_url)}
    assert run("jobs", *where).exit_code == 0


def test_migrate_makes_the_folder_that_up_would_make_and_no_other(run: Run, here: Path) -> None:
    assert run("migrate").exit_code == 0
    assert run("jobs").exit_code == 0
    assert (here / ".warrener" / ".gitignore").exists()
    result = run("migrate", "--store", "sqlite:///elsewhere/state.db")
    assert result.exit_code == 1
    assert "expected a folder elsewhere" in result.stderr


def test_migrate_reports_a_folder_that_it_cannot_write(run: Run) -> None:
    result = run("migrate", "--store", "sqlite:////proc/state.db")  # nobody may, root as little
    assert result.exit_code == 1
    assert "expected to write in folder /proc" in result.stderr
    assert "Traceback" not in result.stderr
