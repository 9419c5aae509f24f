"""Questions go to the store: lists and pages, for people and for machines."""

import json
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from tests.store_access import on_store
from tests.store_rows import NOON, died, parked_message, queued_job, running_job, succeeded
from typer.testing import Result

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.identity import job_id_of
from warrener_store import Store
from warrener_store.jobs.rows import JobRow

Run = Callable[..., Result]
ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message="7 columns", stack="File x")


@pytest.fixture
def jobs(store_url: str) -> dict[str, JobRow]:
    """A running, a succeeded and a dead job, and a parked message."""
    rows = {"running": running_job(), "done": queued_job(), "dead": queued_job(job_type="mail.send")}

    async def fill(store: Store) -> None:
        await store.insert_jobs(list(rows.values()))
        await store.save_jobs([succeeded(rows["done"], {"rows": 842}), died(rows["dead"], ERROR)])
        await store.park([parked_message(content_type=None, body=b"\xff{")])

    on_store(store_url, fill)
    return rows


def test_jobs_for_people(run: Run, store_url: str, jobs: dict[str, JobRow]) -> None:
    result = run("jobs", "--store", store_url)
    assert result.exit_code == 0
    assert all(str(row.job_id) in result.stdout for row in jobs.values())
    assert "ValueError: 7 columns" in result.stdout


def test_one_job_by_the_end_of_its_id(run: Run, store_url: str, jobs: dict[str, JobRow]) -> None:
    end = str(jobs["dead"].job_id)[-10:]
    result = run("job", end, "--json", "--store", store_url)
    page = json.loads(result.stdout)
    assert page["attempts"][0]["outcome"] == "failed"
    assert page["explanation"]["sentence"].startswith("Dead")
    assert "✗ dead" in run("job", end, "--store", store_url).stdout


def test_waiting_for_a_finished_job_ends_with_its_exit_code(
    run: Run, store_url: str, jobs: dict[str, JobRow]
) -> None:
    assert run("job", str(jobs["done"].job_id), "--wait", "--store", store_url).exit_code == 0
    assert run("job", str(jobs["dead"].job_id), "--wait", "--store", store_url).exit_code == 4


def test_a_job_that_nobody_knows(run: Run, store_url: str) -> None:
    result = run("job", str(uuid4()), "--store", store_url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no scheduler has accepted it yet" in result.stderr


def test_an_empty_list_shows_what_to_do_and_is_valid_json(run: Run, store_url: str) -> None:
    result = run("jobs", "--store", store_url)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "warrener request" in result.stderr
    assert json.loads(run("jobs", "--json", "--store", store_url).stdout) == []


def test_a_part_of_an_id_that_fits_several_jobs_lists_them(run: Run, store_url: str) -> None:
    rows = [queued_job(job_id=UUID(hex=f"{uuid4().hex[:24]}456789ab")) for _ in range(2)]
    named = queued_job(job_id=job_id_of("shop", "order-17"), source="shop")

    async def fill(store: Store) -> None:
        await store.insert_jobs([*rows, named])

    on_store(store_url, fill)
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

    async def fill(store: Store) -> None:
        await store.insert_jobs([parent, mail])
        await store.save_jobs([died(mail, ERROR)])

    on_store(store_url, fill)

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
