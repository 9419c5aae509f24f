"""How times, states and jobs are said."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from tests.store_rows import NOON, after, attempt_of, queued_job, running_job, waiting_job

from warrener.command.job_page import flight_text, job_page
from warrener.command.verbs import table_of
from warrener.explanations import explain
from warrener.explanations.facts import JobFacts, SystemFacts
from warrener.operations.job import JobDetails
from warrener.operations.jobs import JOBS, job_fields, job_of
from warrener.operations.masking import Masker
from warrener.render.explanation import explanation_page
from warrener.render.jobs import retries_text
from warrener.render.screen import THEME, AnswerScreen, table
from warrener.render.times import ago, span
from warrener_contracts.events import ErrorInfo, ErrorKind, FlightRecord
from warrener_contracts.policy import Backoff, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.jobs.views import CheckpointRow


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.31, "0.3 s"),
        (42, "42 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (3600, "1 h"),
        (3605, "1 h"),
        (4 * 86400 + 3 * 3600, "4 d 3 h"),
    ],
)
def test_a_span_has_at_most_two_units(seconds: float, expected: str) -> None:
    assert span(timedelta(seconds=seconds)) == expected


def test_a_moment_is_before_or_after_now() -> None:
    assert ago(after(-90), NOON) == "1 min 30 s ago"
    assert ago(after(20), NOON) == "in 20 s"
    assert ago(NOON, NOON) == "now"


def printed(what: object, width: int = 160) -> str:
    paper = StringIO()
    screen = Console(width=width, file=paper, theme=THEME)
    screen.print(what)
    return paper.getvalue()


def details(row: JobRow, *attempts: AttemptRow, child_jobs: Sequence[JobRow] = ()) -> JobDetails:
    why = explain(JobFacts(system=SystemFacts(now=NOON), row=row, attempts=attempts))
    fields: dict[str, Any] = job_fields(JobDetails, row, Masker(None))
    fields |= dict.fromkeys(("checkpoint", "dead_letter", "in_place_of", "trace_id"))
    fields |= {"child_jobs": [job_of(child, Masker(None)) for child in child_jobs]}
    fields |= {"attempts": list(attempts), "explanation": why}
    return JobDetails.model_construct(**fields)


def test_a_page_shows_everything_about_a_job() -> None:
    error = ErrorInfo(
        kind=ErrorKind.ERROR, type="ValueError", message="7 columns", stack="File x\nValueError: 7 columns"
    )
    job = queued_job(state=JobState.RETRYING, attempt=2, failures=1, due_at=after(9), error=error)
    first = replace(
        attempt_of(replace(job, attempt=1), AttemptOutcome.FAILED, error=error),
        verdict=f"retry at {NOON.isoformat()}",
    )
    shown = details(job, first, child_jobs=[waiting_job(job_type="flights.index")])
    page = printed(job_page(shown, NOON))
    for part in (
        "↻ retrying",
        "flights.load",
        "2013-01-01.csv",
        "ValueError: 7 columns",
        "File x",
        "flights.index",
    ):
        assert part in page
    assert page.count("ValueError: 7 columns") == 1, "the error; why the job waits follows without its type"
    assert "Attempt 2 of 5 begins in 9.0 s" in page
    assert ("retry at " in page, "T12:00" in page) == (True, False), "times of day are local"


def test_a_page_names_ten_child_jobs_and_how_many_more_there_are() -> None:
    children = [waiting_job(job_type=f"files.load{number}") for number in range(50)]
    for shown, more in ((10, ""), (11, "and 1 more: --tree"), (50, "and at least 40 more: --tree")):
        page = printed(job_page(details(running_job(), child_jobs=children[:shown]), NOON))
        assert page.count("files.load") == 10
        assert more in page
        assert ("more: --tree" in page) is bool(more)


def test_an_explanation_shows_its_cause_before_the_steps_to_it() -> None:
    job = queued_job(due_at=after(-1), state=JobState.WAITING, attempt=0, dispatched_at=None)
    why = explain(
        JobFacts(system=SystemFacts(now=after(60), schedulers=0, machine_ahead=timedelta(hours=1)), row=job)
    )
    head, cause, *rest = printed(explanation_page(why, after(60))).splitlines()
    assert head.startswith(f"job {job.job_id}")
    assert cause.startswith("✗ No scheduler runs")
    page = "\n".join(rest)
    for part in (
        "1 min 1 s ago",
        "warrener scheduler",
        "scheduler_down",
        "✓  request",
        "✗  scheduler",
        "! this machine",
    ):
        assert part in page


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def listed(*rows: JobRow, now: datetime, width: int = 160) -> list[str]:
    jobs = [job_of(row, Masker(None)) for row in rows]
    return printed(table_of(JOBS, jobs, now), width=width).splitlines()


@pytest.mark.usefixtures("narrow")
def test_on_eighty_columns_the_reason_is_cut_first_and_the_end_of_an_id_is_enough() -> None:
    error = ErrorInfo(kind=ErrorKind.ERROR, type="flights.days.Damaged", message="expected 19 values " * 9)
    dead = queued_job(state=JobState.DEAD, error=error, wake_at=None, finished_at=after(42))
    done = queued_job(job_type="mail.send", state=JobState.SUCCEEDED, wake_at=None, finished_at=after(4))
    header, *lines = listed(dead, done, now=after(3599), width=80)
    assert header.split() == ["job", "type", "state", "attempt", "requested", "took", "due", "why"]
    assert max(map(len, (header, *lines))) <= 80
    assert str(dead.job_id) not in lines[0]
    for whole in (str(dead.job_id)[-8:], "flights.load", "✗ dead", "1/5", "59 min", "42 s", "Dam"):
        assert whole in lines[0]
    for whole in (str(done.job_id)[-8:], "mail.send", "● succeeded", "4.0 s"):
        assert whole in lines[1]


@pytest.mark.usefixtures("narrow")
def test_columns_are_dropped_before_a_name_is_cut() -> None:
    """Those without values first, texts last; the state stays."""
    job_type = "a." + "long" * 10
    header, line = listed(queued_job(job_type=job_type, error=None), now=after(60), width=80)
    assert header.split() == ["job", "type", "state", "attempt"]
    assert job_type in line


def test_numbers_are_never_cut_and_names_in_a_list_wrap_whole() -> None:
    made = table("agent", "queues", "jobs", "about", right=["jobs"])
    names = ["loading-of-files", "mails-to-customers", "reports-of-the-night", "default"]
    made.add_row("worker-1", ", ".join(names), "1,234,567", "a long text " * 9)
    shown = printed(made, width=60)
    assert max(map(len, shown.splitlines())) <= 60
    for whole in ("worker-1", "1,234,567", *names):
        assert whole in shown


def test_what_was_last_seen_of_an_attempt_is_shown() -> None:
    record = FlightRecord(
        stacks="Thread MainThread\n  in load\n",
        log="reading day.csv\n",
        progress=0.25,
        progress_note="reading",
        cpu_seconds=1.26,
        memory_bytes=120 << 20,
        processes=1,
        threads=2,
    )
    assert flight_text(record).plain.splitlines() == [
        "1.3 s of a processor, 120.0MiB of memory, 1 process, 2 threads",
        "progress 25% reading",
        "stacks",
        "Thread MainThread",
        "  in load",
        "last words",
        "reading day.csv",
    ]
    assert flight_text(FlightRecord(log="only this")).plain == "last words\nonly this"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (JobPolicy(), "1 s x2 to 5 min"),
        (JobPolicy(backoff=Backoff.fixed("30s")), "30 s"),
        (JobPolicy(backoff=Backoff.linear("10s", step="1m", limit="1h")), "10 s +1 min to 1 h"),
        (JobPolicy(backoff=Backoff.listed(0.5, "1m", "6h")), "0.5 s, 1 min, 6 h"),
        (JobPolicy(backoff=Backoff.listed(*range(1, 9))), "1 s, 2 s, 3 s, 4 s, 5 s, 6 s …"),
        (
            JobPolicy(
                retry_on=("requests.*", "OSError"), no_retry_on=("ValueError",), max_age=timedelta(hours=2)
            ),
            "1 s x2 to 5 min, only requests.* OSError, not ValueError, at most 2 h old",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_policy_is_summed_up_in_a_few_words(policy: JobPolicy, expected: str) -> None:
    assert retries_text(policy) == expected


def test_a_page_shows_by_which_policy_a_job_is_retried() -> None:
    policy = JobPolicy(max_age=timedelta(hours=1), no_retry_on=("app.Closed",), backoff=Backoff.fixed("30s"))
    page = printed(job_page(details(running_job(policy=policy)), NOON))
    assert "after 30 s, ± 10%, not app.Closed, none after " in page


def test_a_snoozed_attempt_differs_from_a_failed_one() -> None:
    job = queued_job(state=JobState.RETRYING, attempt=2, due_at=after(90))
    snoozed = replace(
        attempt_of(replace(job, attempt=1), AttemptOutcome.SNOOZED),
        verdict="snoozed until then: not there yet",
    )
    page = printed(job_page(details(job, snoozed), NOON))
    assert "snoozed until then: not there yet" in page
    assert "0 of at most 5 failures" in page
    assert "in 1 min 30 s" in listed(job, now=NOON)[1]


@pytest.mark.parametrize("width", [200, 80, 40, 20])
def test_a_name_that_is_there_to_be_copied_is_never_cut(width: int) -> None:
    made = table("job", "type", "why")
    job_id, text = "01936f2e-8a3b-7c4d-9e5f-0123456789ab", "ValueError: " + "a long text " * 20
    made.add_row(job_id, "flights.load", text)
    shown = StringIO()
    AnswerScreen(file=shown, width=width, theme=THEME).print(made)
    lines = shown.getvalue().splitlines()
    assert job_id in lines[1]
    assert len(lines) == 2
    if width >= 80:
        assert all(len(line.rstrip()) <= width for line in lines)


def test_a_page_shows_the_errors_of_earlier_attempts_with_their_stacks() -> None:
    def error(message: str) -> ErrorInfo:
        return ErrorInfo(kind=ErrorKind.ERROR, type="OSError", message=message, stack=f"File {message}.py")

    last = error("third")
    job = queued_job(state=JobState.RETRYING, attempt=4, failures=3, due_at=after(9), error=last)
    messages = ("first", "second", "second", "third")
    attempts = [
        attempt_of(replace(job, attempt=number), AttemptOutcome.FAILED, error=error(message))
        for number, message in enumerate(messages, start=1)
    ]
    page = printed(job_page(details(job, *attempts), NOON))
    for message in ("first", "second", "third"):
        assert page.count(f"OSError: {message}") == 1
        assert f"File {message}.py" in page
    assert "error of attempt 1" in page
    assert "the same as above" in page
    ended = replace(job, state=JobState.SUCCEEDED, wake_at=None, finished_at=NOON, error=last)
    assert "OSError: third" in printed(job_page(details(ended, *attempts), NOON))


def test_a_job_that_has_succeeded_shows_the_state_that_it_has_published() -> None:
    job = queued_job(state=JobState.SUCCEEDED, suspensions=1, wake_at=None, finished_at=after(9))
    state = CheckpointRow(job_id=job.job_id, attempt=2, number=1, state={"stage": "packed"}, saved_at=NOON)
    page = printed(job_page(details(job).model_copy(update={"checkpoint": state}), after(9)))
    assert "published" in page
    assert '{"stage": "packed"}' in page
