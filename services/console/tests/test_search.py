"""One search finds what people have: an id, a key, an argument, a part of a name. Its faces agree."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, get_args
from uuid import UUID

import pytest
from services.console.tests.conftest import Run, put_jobs
from services.console.tests.web.conftest import NO_BROKER, browser_on, open_console
from tests.store_access import on_store, opened_store
from tests.store_rows import (
    NOON,
    after,
    died,
    job_type_row,
    parked_message,
    queued_job,
    schedule_row,
    waiting_job,
)

from warrener.operations.job_search import JobSearch, find_jobs
from warrener.operations.masking import Masker
from warrener.operations.search import MAX_JOBS, Hit, Kind, compare, excerpt, rank
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.identity import job_id_of
from warrener_contracts.schedule_rules import CronRule
from warrener_store import Store, UnknownJob
from warrener_store.jobs.rows import JobFilter, JobRow

HOSTILE = "<script>alert(1)</script>"
KEYED = queued_job(idempotency_key="invoice-17", arguments={"amount": 3}, accepted_at=after(1))
OWN = queued_job(job_id=job_id_of("shop", "order-18"), source="shop", accepted_at=after(2))
SENT = queued_job(
    job_type="mail.send",
    queue="mails",
    arguments={"order": {"number": 17}, "to": ["ann@example.org"], "note": HOSTILE, "password": "hunter2"},
    traceparent="00-5b8efff798038103d269b633813fc60c-eee19b7ec3c10001-01",
    accepted_at=after(3),
)
DEAD = queued_job(arguments={"day": "2013-05-01"}, accepted_at=after(4))
DAMAGED = ErrorInfo(kind=ErrorKind.ERROR, type="flights.Damaged", message="expected 19 fields in line 17")
PARKED = parked_message(
    "warrener.requests:lost-1",
    reason="unknown_job_type",
    body=b'{"id":"lost-1","data":{"job_type":"no.such","arguments":{"token":"s3cret","gate":"B42"}}}',
)


async def fill(store: Store) -> None:
    """A store with one of each thing."""
    await store.put_job_types([job_type_row(), job_type_row("mail.send", queue="mails")])
    await store.put_schedules([schedule_row("flights.hourly", CronRule(expression="0 * * * *"))])
    await store.insert_jobs([KEYED, OWN, SENT, DEAD])
    await store.save_jobs([died(DEAD, DAMAGED)])
    await store.park([PARKED])


def answers(url: str, *paths: str, masker: Masker | None = None) -> list[Any]:
    """The answers of a console on this store: its status and its text, or the document of its API."""

    async def read() -> list[Any]:
        async with open_console(url) as console:
            console.masker = masker or console.masker
            async with browser_on(console) as browser:
                got = [await browser.get(path) for path in paths]
                return [
                    (one.status_code, one.json() if path.startswith("/api") else one.text)
                    for path, one in zip(paths, got, strict=True)
                ]

    return asyncio.run(read())


@pytest.fixture
def filled_url(store_url: str) -> str:
    on_store(store_url, fill)
    return store_url


def test_each_thing_is_found_by_each_of_its_texts(filled_url: str, run: Run) -> None:
    whole, beginning, part = "whole", "beginning", "part"
    wanted: dict[str, tuple[str, str, str]] = {
        str(KEYED.job_id): ("job", str(KEYED.job_id), whole),
        str(KEYED.job_id)[:8]: ("job", str(KEYED.job_id), beginning),
        str(KEYED.job_id)[-8:]: ("job", str(KEYED.job_id), part),
        "invoice-17": ("job", str(KEYED.job_id), whole),
        "order-18": ("job", str(OWN.job_id), whole),
        "17": ("job", str(SENT.job_id), whole),
        "order.number=17": ("job", str(SENT.job_id), whole),
        "ANN@example": ("job", str(SENT.job_id), part),
        "5b8efff798038103d269b633813fc60c": ("job", str(SENT.job_id), whole),
        "2013-05": ("job", str(DEAD.job_id), part),
        "19 fields in": ("job", str(DEAD.job_id), part),
        "lost-1": ("parked", PARKED.parked_id, part),
        PARKED.parked_id: ("parked", PARKED.parked_id, whole),
        "b42": ("parked", PARKED.parked_id, part),
        "mail.send": ("job_type", "mail.send", whole),
        "Mail": ("job_type", "mail.send", beginning),
        "mails": ("queue", "mails", whole),
        "hourly": ("schedule", "flights.hourly", part),
    }
    for text, first in wanted.items():
        found = run("find", text, "--json", "--store", filled_url)
        assert found.exit_code == 0, (text, found.output)
        hit = json.loads(found.stdout)["hits"][0]
        assert (hit["kind"], hit["name"], hit["match"]) == first, text
    shown = run("find", "17", "--store", filled_url).stdout
    assert "argument order.number=17" in shown
    assert f"warrener job {SENT.job_id}" in shown


def test_the_command_and_the_api_write_the_same_and_each_hit_leads_to_a_page(
    filled_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", NO_BROKER)
    texts = ("flights", "17", "mail", "no.such", "nothing-has-it")
    ours = [
        json.loads(run("find", text, "--json", "-n", "3", "--store", filled_url).stdout) for text in texts
    ]
    paths = [f"/api/v1/search?q={text}&limit=3" for text in texts]
    assert answers(filled_url, *paths) == [(200, page) for page in ours]
    hits = {hit["kind"]: hit for page in ours for hit in page["hits"]}
    assert len(hits) == len(get_args(Kind))
    pages = answers(filled_url, *(hit["path"] for hit in hits.values()))
    assert [status for status, _ in pages] == [200] * len(hits)
    for hit in hits.values():
        words = hit["command"].split()[1:]
        assert run(*words, "--store", filled_url).exit_code == 0, words


def test_the_page_works_without_scripts_and_its_field_stands_on_every_page(filled_url: str) -> None:
    paths = ("/", "/jobs", "/search", "/search?q=17", "/search?q=flights.hurly", "/jobs/none-such")
    texts = [text for _, text in answers(filled_url, *paths)]
    for text in texts:
        assert 'action="/search"' in text
        assert 'type="search" id="search" name="q"' in text
        assert HOSTILE not in text
    _, _, empty, found, close, _ = texts
    assert "an idempotency key" in empty
    assert f'href="/jobs/{SENT.job_id}"' in found
    assert 'name="q" value="17"' in found
    assert 'href="?q=flights.hourly"' in close


def test_hidden_values_are_not_found(filled_url: str) -> None:
    texts = ("hunter2", "s3cret", "password=hunter2")
    for _, found in answers(filled_url, *(f"/api/v1/search?q={text}" for text in texts)):
        assert found["hits"] == []
    [(_, found)] = answers(filled_url, "/api/v1/search?q=hunter2", masker=Masker(None))
    assert [hit["name"] for hit in found["hits"]] == [str(SENT.job_id)]


def test_an_old_job_is_found_by_id_and_key_and_the_answer_names_what_it_did_not_compare(
    filled_url: str, run: Run
) -> None:
    put_jobs(
        filled_url, *(queued_job(arguments={"n": n}, accepted_at=after(10 + n)) for n in range(2 * MAX_JOBS))
    )
    for text in ("invoice-17", str(KEYED.job_id), str(KEYED.job_id)[-8:]):
        assert str(KEYED.job_id) in run("find", text, "--store", filled_url).stdout, text
    lost = run("find", "2013-05-01", "--store", filled_url)
    assert (lost.exit_code, lost.stdout) == (1, "")
    error = " ".join(lost.stderr.split())
    assert "expected an id, a key, an argument or a name, got '2013-05-01'" in error
    assert "were looked for in the newest 1,000 jobs alone" in error
    page = json.loads(run("find", "mail", "--json", "--store", filled_url).stdout)
    assert not page["is_complete"]
    assert [hit["kind"] for hit in page["hits"]] == ["job_type", "queue"]


def test_names_that_are_spelled_alike_are_suggested(filled_url: str, run: Run) -> None:
    found = run("find", "flights.laod", "--store", filled_url)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "did you mean flights.load" in " ".join(found.stderr.split())
    found = run("find", "flights.laod", "--json", "--store", filled_url)
    assert found.exit_code == 1
    assert json.loads(found.stdout)["suggestions"][0] == "flights.load"


def test_an_empty_text_is_refused_with_what_to_give(store_url: str, run: Run) -> None:
    found = run("find", " ", "--store", store_url)
    assert found.exit_code == 2
    assert "q: expected a text, got none; give an id" in " ".join(found.stderr.split())
    [(status, problem)] = answers(store_url, "/api/v1/search")
    assert status == 400
    assert "expected a text, got none" in problem["detail"]
    assert run("find", "x" * 201, "--store", store_url).exit_code == 2


@pytest.mark.parametrize("text", ["%", "_", "'", '"', "\\", "a\x00b", "\N{SNOWMAN}", "job:17", "-"])
def test_any_text_may_be_looked_for(filled_url: str, run: Run, text: str) -> None:
    found = run("find", "--json", "--store", filled_url, "--", text)
    assert found.exit_code in {0, 1}, found.output
    assert bool(json.loads(found.stdout)["hits"]) == (found.exit_code == 0)


# -- ranks -------------------------------------------------------------------------------------------------


def hit(kind: Any, match: Any, name: str = "x") -> Hit:
    return Hit(kind=kind, name=name, match=match, where="name", about="", command="", path="")


def test_whole_texts_come_first_then_names_then_contents() -> None:
    jobs = [hit("job", "part", f"{n}") for n in range(3)] + [hit("job", "whole")]
    names = [hit("queue", "part"), hit("queue", "beginning")]
    ranked, is_cut = rank([names, [hit("schedule", "whole")], jobs], 3)
    assert is_cut
    assert [(one.kind, one.match) for one in ranked] == [
        ("schedule", "whole"),
        ("job", "whole"),
        ("queue", "beginning"),
        ("queue", "part"),
        ("job", "part"),
        ("job", "part"),
    ]
    assert rank([jobs], 4)[1] is False


def test_a_long_value_is_shown_around_its_text() -> None:
    assert excerpt("short order-17", "ORDER") == "short order-17"
    long = excerpt("x" * 100 + "\nneedle " + "y" * 500, "needle")
    assert long.startswith("…x")
    assert " needle yyy" in long
    assert long.endswith("y…")
    assert len(long) < 130
    assert compare("straße", "STRASSE 7") == "beginning"


@pytest.fixture
async def store(sqlite_store_url: str) -> AsyncIterator[Store]:
    async with opened_store(sqlite_store_url) as opened:
        yield opened


def search(**fields: object) -> JobSearch:
    """A search for jobs of one queue, which no index selects."""
    which = JobFilter(limit=10_000, **fields)  # type: ignore[arg-type] # its fields
    return JobSearch(which, lambda row: row.queue == "loading")


async def put(store: Store, seconds: Sequence[float]) -> list[UUID]:
    """Jobs that were accepted so many seconds after noon; their ids, the newest first."""
    rows: list[JobRow] = []
    for number, second in enumerate(seconds):
        make = queued_job if number % 2 else waiting_job
        rows.append(
            make(queue="loading", job_type=f"type.{number % 3}", accepted_at=after(second), requested_at=NOON)
        )
    await store.insert_jobs(rows)
    return [row.job_id for row in sorted(rows, key=lambda row: (row.accepted_at, row.job_id), reverse=True)]


async def test_jobs_that_are_years_apart_and_more_of_one_moment_than_a_page_are_found(store: Store) -> None:
    day = 86_400
    ids = await put(store, [0, -1, -3600, -day, -300 * day, *[-1095.0 * day] * 1200, -7300 * day])
    found = await find_jobs(store, search())
    assert [row.job_id for row in found.rows] == ids
    assert found.is_complete
    recent = await find_jobs(store, search(accepted_from=after(-2 * day), accepted_until=after(-0.5)))
    assert [row.job_id for row in recent.rows] == ids[1:4]


async def test_a_search_goes_on_where_it_has_ended(store: Store) -> None:
    ids = await put(store, [-7.0 * number for number in range(50)])
    found: list[UUID] = []
    before: UUID | None = None
    while True:
        part = await find_jobs(store, search(before=before), max_examined=20)
        found += [row.job_id for row in part.rows]
        assert part.is_complete == (len(part.rows) < 20)
        if part.before is None:
            break
        before = part.before
    assert found == ids


async def test_a_search_behind_no_job_is_refused(store: Store) -> None:
    with pytest.raises(UnknownJob):
        await find_jobs(store, search(before=UUID(int=1)))
    assert (await find_jobs(store, search())).rows == []
