"""Jobs as the store holds them: lists, pages, waterfalls and log lines, for people and for machines."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.console.tests.conftest import Run, put_jobs
from tests.security.attacks import attack
from tests.store_access import on_store
from tests.store_rows import (
    NOON,
    after,
    attempt_of,
    died,
    log_chunk,
    parked_message,
    queued_job,
    running_job,
    succeeded,
)

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, JobRow, Save
from warrener_store.logs.rows import LogLimit

ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message="7 columns", stack="File x")


@pytest.fixture
def jobs(store_url: str) -> dict[str, JobRow]:
    """A running, a succeeded and a dead job, and a parked message."""
    rows = {"running": running_job(), "done": queued_job(), "dead": queued_job(job_type="mail.send")}
    saves = [succeeded(rows["done"], {"rows": 842}), died(rows["dead"], ERROR)]
    put_jobs(store_url, *rows.values(), saves=saves)
    on_store(store_url, lambda store: store.park([parked_message(content_type=None, body=b"\xff{")]))
    return rows


def test_jobs_are_listed_shown_by_the_end_of_an_id_and_waited_for(
    run: Run, store_url: str, jobs: dict[str, JobRow]
) -> None:
    where, end = ("--store", store_url), str(jobs["dead"].job_id)[-10:]
    listed = run("jobs", *where)
    assert listed.exit_code == 0
    for part in ("ValueError: 7 columns", *(str(row.job_id) for row in jobs.values())):
        assert part in listed.stdout
    page = json.loads(run("job", end, "--json", *where).stdout)
    assert page["attempts"][0]["outcome"] == "failed"
    assert page["explanation"]["sentence"].startswith("Dead")
    assert "✗ dead" in run("job", end, *where).stdout
    assert run("job", str(jobs["done"].job_id), "--wait", *where).exit_code == 0
    assert run("job", end, "--wait", *where).exit_code == 4


def test_without_jobs_it_shows_what_to_do_and_is_valid_json(run: Run, store_url: str) -> None:
    result = run("job", str(uuid4()), "--store", store_url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no scheduler has accepted it yet" in result.stderr
    result = run("jobs", "--store", store_url)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "warrener request" in result.stderr
    assert json.loads(run("jobs", "--json", "--store", store_url).stdout) == []


def test_a_part_of_an_id_that_fits_several_jobs_lists_them(run: Run, store_url: str) -> None:
    rows = [queued_job(job_id=UUID(hex=f"{uuid4().hex[:24]}456789ab")) for _ in range(2)]
    named = queued_job(job_id=job_id_of("shop", "order-17"), source="shop")
    put_jobs(store_url, *rows, named)
    result = run("job", "456789ab", "--store", store_url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert all(str(row.job_id) in result.stderr for row in rows)
    page = json.loads(run("job", "order-17", "--json", "--store", store_url).stdout)
    assert page["job_id"] == str(named.job_id)
    unknown = run("job", "order-18", "--store", store_url)
    assert unknown.exit_code == 1
    assert "got 'order-18': no job has it" in unknown.stderr
    assert run("job", "789ab", "--store", store_url).exit_code == 2


def test_jobs_are_selected_by_what_people_know_of_them(run: Run, store_url: str) -> None:
    parent = queued_job(accepted_at=NOON)
    mail = queued_job(
        job_type="mail.send",
        queue="mails",
        source="shop",
        arguments={"order": 17, "to": {"name": "Ann"}},
        parent_id=parent.job_id,
        traceparent="00-5b8efff798038103d269b633813fc60c-eee19b7ec3c10001-01",
    )
    put_jobs(store_url, parent, mail, saves=[died(mail, ERROR)])

    def listed(*words: str) -> list[str]:
        result = run("jobs", *words, "--json", "--store", store_url)
        assert result.exit_code == 0, result.output
        return [row["job_id"] for row in json.loads(result.stdout)]

    for words in (
        ("--queue", "mails"),
        ("--source", "shop"),
        ("--argument", "order=17"),
        ("--argument", "to.name=Ann", "--argument", "order=17"),
        ("--trace", "5B8EFFF798038103d269b633813fc60c"),
        ("--error", "valueerror: 7"),
        ("--parent", str(parent.job_id)[-8:]),
        ("--state", "dead", "--queue", "mails"),
    ):
        assert listed(*words) == [str(mail.job_id)], words
    for words in (("--queue", "no"), ("--argument", "order=18"), ("--error", "KeyError"), ("--since", "1s")):
        assert listed(*words) == [], words
    assert set(listed("--until", "1s")) == {str(parent.job_id), str(mail.job_id)}


def test_rejected_requests_are_listed_as_such(run: Run, store_url: str, jobs: dict[str, JobRow]) -> None:
    assert jobs
    [rejected] = json.loads(run("jobs", "--state", "rejected", "--json", "--store", store_url).stdout)
    assert (rejected["reason"], rejected["detail"]) == ("not_json", "expected JSON")
    assert "not_json" in run("jobs", "--state", "rejected", "--store", store_url).stdout
    mixed = run("jobs", "--state", "rejected", "--state", "dead", "--store", store_url)
    assert mixed.exit_code == 2
    assert "a rejected request is no job" in " ".join(mixed.stderr.split())


DAMAGED = ErrorInfo(kind=ErrorKind.ERROR, type="flights.days.Damaged", message="7 columns")


def put_retried_job(url: str) -> JobRow:
    """Store a job that failed, waited a quarter of an hour and succeeded, with one child job."""
    job = queued_job(requested_at=after(-1))
    child_job = queued_job(job_type="mail.send", parent_id=job.job_id, requested_at=after(905))
    retrying = replace(
        job,
        version=2,
        state=JobState.RETRYING,
        attempt=2,
        failures=1,
        due_at=after(900),
        dispatched_at=after(900.5),
        error=DAMAGED,
        updated_at=after(3),
    )
    first = replace(
        attempt_of(replace(job, agent_id="a1", started_at=after(1)), AttemptOutcome.FAILED, error=DAMAGED),
        finished_at=after(3),
        verdict=f"retry at {after(900).isoformat()}",
    )
    second = attempt_of(replace(retrying, agent_id="a2", started_at=after(902)), AttemptOutcome.SUCCEEDED)
    over = succeeded(retrying).row
    last = Save(
        replace(over, finished_at=after(906)), replace(second, finished_at=after(905), verdict="done")
    )
    put_jobs(url, job, child_job, saves=[Save(retrying, first), last, succeeded(child_job)])
    return job


def test_a_trace_shows_where_the_time_of_a_job_went_and_leaves_none_unexplained(
    run: Run, store_url: str
) -> None:
    done = put_retried_job(store_url)
    words = ("trace", str(done.job_id)[-8:], "--store", store_url)
    shown = run(*words)
    assert shown.exit_code == 0, shown.output
    for part in (
        "● succeeded",
        "request",
        "failed on a1: Damaged: 7 columns",
        "retry delay",
        "⋯14 min 57 s",
        "attempt 2",
        "succeeded on a2",
        "mail.send",
    ):
        assert part in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 160
    page = json.loads(run(*words, "--json").stdout)
    assert page["state"] == "succeeded"
    own = [bar for row in page["rows"] if not row["kind"].startswith("child") for bar in row["bars"]]
    assert sum(bar["seconds"] for bar in own) == pytest.approx(907)
    assert all(one["end"] == two["start"] for one, two in pairwise(own))
    assert [row["job_id"] is not None for row in page["rows"]].count(True) == 1
    # Watching a job that is over ends at once.
    lines = run(*words, "--watch", "--json").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["succeeded"]
    watched = run(*words, "--watch")
    assert (watched.exit_code, "● succeeded" in watched.stdout) == (0, True)


HOSTILE = ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message="7 columns\x1b[2J")


@pytest.fixture
def dead(store_url: str) -> JobRow:
    """A job that died at its second attempt; the log of both is stored."""
    row = queued_job(attempt=2)
    again: dict[str, Any] = {"attempt": 2, "started_at": after(2)}
    chunks = [
        log_chunk(row.job_id, 1, "the first attempt", final=True),
        log_chunk(row.job_id, 1, "begins", **again),
        log_chunk(row.job_id, 100_000, "\x1b[31mred\x07", "Rows:\n  line 2", final=True, **again),
    ]
    put_jobs(store_url, row, saves=[died(row, HOSTILE)])
    on_store(store_url, lambda store: store.append_logs(chunks, LogLimit(100, 10_000)))
    return row


def test_the_lines_of_an_attempt_stand_between_its_start_and_its_end_and_for_machines_in_a_document(
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
    page = json.loads(run("job", str(dead.job_id), "--logs", "--json", "--store", store_url).stdout)
    assert (page["attempt"], page["omitted"], page["complete"]) == (2, 99_998, True)
    assert [line["text"] for line in page["lines"]] == ["begins", "\x1b[31mred\x07", "Rows:\n  line 2"]
    assert page["agent_ids"] == ["a1"]
    words = ("job", str(dead.job_id), "--store", store_url, "--attempt")
    assert "the first attempt" in run(*words, "1").stdout
    silent = run(*words, "3")
    assert (silent.exit_code, silent.stdout) == (0, "")
    assert "No log line of attempt 3 is stored." in silent.stderr


@attack(
    "a handler",
    "ends a line in the name of its logger or in an error, to write a log line of another",
    refused="the command: only its own lines begin at the margin",
)
def test_a_line_end_in_a_name_or_an_error_starts_no_line(run: Run, store_url: str) -> None:
    row = queued_job(attempt=1)
    forged = "\nattempt 1 succeeded after 1s"
    (line,) = log_chunk(row.job_id, 1, "x").lines
    chunk = log_chunk(
        row.job_id, 1, "x", lines=(line.model_copy(update={"logger": f"a{forged}"}),), final=True
    )
    error = ErrorInfo(kind=ErrorKind.ERROR, type="E", message=f"b{forged}")
    put_jobs(store_url, row, saves=[died(row, error)])
    on_store(store_url, lambda store: store.append_logs([chunk], LogLimit(100, 10_000)))
    result = run("job", str(row.job_id), "--logs", "--store", store_url)
    assert result.exit_code == 0
    forgeries = [one for one in result.stdout.splitlines() if "attempt 1 succeeded" in one]
    assert forgeries, "they are shown"
    assert [one for one in forgeries if one.startswith("attempt")] == []


def test_following_ends_with_the_job_and_its_exit_code(run: Run, store_url: str, dead: JobRow) -> None:
    result = run("job", str(dead.job_id), "--follow", "--store", store_url)
    assert result.exit_code == 4
    assert "the first attempt" not in result.stdout, "it begins with the current attempt"
    assert result.stdout.splitlines()[-1].startswith("job ")
    streamed = run("job", str(dead.job_id), "--follow", "--attempt", "1", "--json", "--store", store_url)
    (line,) = map(json.loads, streamed.stdout.splitlines())
    assert (line["attempt"], line["text"]) == (1, "the first attempt")
    row = queued_job()
    put_jobs(store_url, row, saves=[succeeded(row)])
    silent = run("job", str(row.job_id), "--follow", "--store", store_url)
    assert (silent.exit_code, "succeeded" in silent.stdout) == (0, True)
