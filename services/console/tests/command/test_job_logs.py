"""`warrener job ID --logs`: the lines of an attempt, whatever they hold, for people and for machines."""

import json
from collections.abc import Callable

import pytest
from tests.store_access import on_store
from tests.store_rows import after, died, log_chunk, queued_job, succeeded
from typer.testing import Result

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_store import Store
from warrener_store.jobs.rows import JobRow
from warrener_store.logs.rows import LogLimit

Run = Callable[..., Result]
ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message="7 columns\x1b[2J")


@pytest.fixture
def dead(store_url: str) -> JobRow:
    """A job that died at its second attempt; the log of both is stored."""
    row = queued_job(attempt=2)

    async def fill(store: Store) -> None:
        await store.insert_jobs([row])
        await store.append_logs(
            [
                log_chunk(row.job_id, 1, "the first attempt", final=True),
                log_chunk(row.job_id, 1, "begins", attempt=2, started_at=after(2)),
                log_chunk(
                    row.job_id,
                    100_000,
                    "\x1b[31mred\x07",
                    "Rows:\n  line 2",
                    attempt=2,
                    started_at=after(2),
                    final=True,
                ),
            ],
            LogLimit(100, 10_000),
        )
        await store.save_jobs([died(row, ERROR)])

    on_store(store_url, fill)
    return row


def test_the_lines_of_the_last_attempt_between_its_start_and_its_end(
    run: Run, store_url: str, dead: JobRow
) -> None:
    result = run("job", str(dead.job_id), "--logs", "--store", store_url)
    assert result.exit_code == 0
    first, begins, gap, red, rows, second, end = result.stdout.splitlines()
    assert first.startswith("attempt 2")
    assert begins.endswith("INFO     shop.jobs  begins")
    assert gap == "… 99,998 lines left out"
    assert red.endswith(r"\x1b[31mred\x07"), "control characters are shown, not sent to the terminal"
    assert (rows.endswith("Rows:"), second) == (True, "      line 2")
    assert end.startswith("attempt 2")
    assert end.endswith(r": ValueError: 7 columns\x1b[2J")
    assert "\x1b" not in result.stdout


def test_another_attempt_and_one_without_lines(run: Run, store_url: str, dead: JobRow) -> None:
    words = ("job", str(dead.job_id), "--store", store_url, "--attempt")
    assert "the first attempt" in run(*words, "1").stdout
    silent = run(*words, "3")
    assert (silent.exit_code, silent.stdout) == (0, "")
    assert "No log line of attempt 3 is stored." in silent.stderr


def test_for_machines_the_lines_are_one_document(run: Run, store_url: str, dead: JobRow) -> None:
    page = json.loads(run("job", str(dead.job_id), "--logs", "--json", "--store", store_url).stdout)
    assert (page["attempt"], page["omitted"], page["complete"]) == (2, 99_998, True)
    assert [line["text"] for line in page["lines"]] == ["begins", "\x1b[31mred\x07", "Rows:\n  line 2"]
    assert page["agent_ids"] == ["a1"]


def test_following_ends_with_the_job_and_its_exit_code(run: Run, store_url: str, dead: JobRow) -> None:
    result = run("job", str(dead.job_id), "--follow", "--store", store_url)
    assert result.exit_code == 4
    assert "the first attempt" not in result.stdout, "it begins with the current attempt"
    assert result.stdout.splitlines()[-1].startswith("job ")
    streamed = run("job", str(dead.job_id), "--follow", "--attempt", "1", "--json", "--store", store_url)
    (line,) = map(json.loads, streamed.stdout.splitlines())
    assert (line["attempt"], line["text"]) == (1, "the first attempt")


def test_following_a_job_that_has_succeeded_without_a_line(run: Run, store_url: str) -> None:
    row = queued_job()

    async def fill(store: Store) -> None:
        await store.insert_jobs([row])
        await store.save_jobs([succeeded(row)])

    on_store(store_url, fill)
    result = run("job", str(row.job_id), "--follow", "--store", store_url)
    assert result.exit_code == 0
    assert "succeeded" in result.stdout
