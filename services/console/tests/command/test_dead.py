"""`warrener dead-letters`: lists, causes, pages and redrives, from what the store holds."""

import json
from dataclasses import replace
from uuid import uuid4

import pytest
from services.console.tests.conftest import Run
from tests.store_access import on_store
from tests.store_rows import NOON, died, queued_job, redrive_row

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_store import Store
from warrener_store.dead_letters.rows import DeadLetterState, DeadLetterTransition, JournalEntry, RedriveState
from warrener_store.jobs.rows import JobRow

ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message="7 columns", stack="File x")
CAUSE = "0123456789ab"
HEIR = uuid4()
REDRIVE = redrive_row(
    state=RedriveState.STOPPED,
    stop_reason="the same failure is back",
    counts={"died_again": 1},
    journal=(JournalEntry(at=NOON, by="ann", action="requested: mended"),),
    wake_at=None,
)


@pytest.fixture
def dead(store_url: str) -> list[JobRow]:
    """Three dead jobs of one cause, of which one was redriven and died again."""
    rows = [queued_job(), queued_job(), queued_job(job_id=HEIR)]

    async def fill(store: Store) -> None:
        await store.insert_jobs(rows)
        saves = [died(row, ERROR) for row in rows]
        dead_letters = [replace(save.dead_letter, fingerprint=CAUSE) for save in saves if save.dead_letter]
        await store.save_jobs(
            [
                replace(save, dead_letter=dead_letter)
                for save, dead_letter in zip(saves, dead_letters, strict=True)
            ]
        )
        await store.dead_letter_store.save_redrive(REDRIVE)
        moved = replace(
            dead_letters[0],
            state=DeadLetterState.DIED_AGAIN,
            redrive_id=REDRIVE.redrive_id,
            redriven_as=HEIR,
            redrives=1,
        )
        await store.dead_letter_store.save_redrive(
            replace(REDRIVE, version=2), [DeadLetterTransition(DeadLetterState.OPEN, moved)]
        )

    on_store(store_url, fill)
    return rows


def test_what_nobody_has_dealt_with_is_listed(run: Run, store_url: str, dead: list[JobRow]) -> None:
    where = ("--store", store_url)
    for result in (run("dead-letters", "--json", *where), run("dead-letters", "list", "--json", *where)):
        assert {each["job_id"] for each in json.loads(result.stdout)} == {str(row.job_id) for row in dead[1:]}
    assert len(json.loads(run("dead-letters", "list", "--all", "--json", *where).stdout)) == 3
    assert "ValueError: 7 columns" in run("dead-letters", *where).stdout
    assert json.loads(run("dead-letters", "list", "--since", "1h", "--json", *where).stdout) == []
    assert run("dead-letters", "list", "--since", "soon", *where).exit_code == 2


def test_causes_are_listed_and_found_by_prefix(run: Run, store_url: str, dead: list[JobRow]) -> None:
    where = ("--store", store_url)
    (cause,) = json.loads(run("dead-letters", "causes", "--json", *where).stdout)
    assert (cause["fingerprint"], cause["dead_letters"]) == (CAUSE, len(dead) - 1)
    assert CAUSE in run("dead-letters", "causes", "0123", *where).stdout
    assert len(json.loads(run("dead-letters", "list", "--fingerprint", "0123", "--json", *where).stdout)) == 2
    unknown = run("dead-letters", "list", "--fingerprint", "ffff", *where)
    assert (unknown.exit_code, "expected one cause" in unknown.stderr) == (1, True)


def test_a_page_shows_what_is_known_and_what_may_be_done(
    run: Run, store_url: str, dead: list[JobRow]
) -> None:
    where = ("--store", store_url)
    first = run("dead-letters", "show", str(dead[0].job_id), *where).stdout
    assert all(
        word in first for word in (CAUSE, str(HEIR), "died_again", "ValueError: 7 columns", "died too")
    )
    heir = json.loads(run("dead-letters", "show", str(HEIR), "--json", *where).stdout)
    found = (heir["in_place_of"], heir["arguments"], heir["dead_letter"]["state"])
    assert found == (str(dead[0].job_id), {"path": "2013-01-01.csv"}, "open")
    assert str(dead[0].job_id) in run("dead-letters", "show", str(HEIR), *where).stdout
    assert heir["explanation"]["next"] == "A redrive requests it again"


def test_redrives_are_listed_with_their_journals(run: Run, store_url: str, dead: list[JobRow]) -> None:
    assert dead
    where = ("--store", store_url)
    end = str(REDRIVE.redrive_id)[-8:]
    assert "the same failure is back" in run("dead-letters", "redrives", *where).stdout
    page = run("dead-letters", "redrives", end, *where).stdout
    assert all(word in page for word in ("requested: mended", "ann", "died_again: 1"))
    assert json.loads(run("dead-letters", "redrives", end, "--json", *where).stdout)["counts"] == {
        "died_again": 1
    }
    assert run("dead-letters", "redrives", "zzzz", *where).exit_code == 1


def test_a_drop_needs_a_selection_a_reason_and_yes_and_until_then_shows_the_causes(
    run: Run, store_url: str, dead: list[JobRow]
) -> None:
    where = ("--store", store_url)
    for words in (("redrive",), ("drop", "--reason", "x")):
        result = run("dead-letters", *words, *where)
        assert result.exit_code == 2
        assert "expected a selection of dead letters, got none" in result.stderr
    drop = ("dead-letters", "drop", str(dead[1].job_id), *where)
    for more in (("--reason", "x"), ("--dry-run",)):
        shown = json.loads(run(*drop, *more, "--json").stdout)
        assert (shown["total"], shown["groups"][0]["fingerprint"]) == (1, CAUSE)
        assert "nothing was done; to drop these 1: --yes" in run(*drop, *more).stderr
    for confirmed in ((), ("--yes",)):
        result = run(*drop, *confirmed)
        assert (result.exit_code, "expected --reason, got none" in result.stderr) == (2, True)
